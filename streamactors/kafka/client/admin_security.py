"""The admin client's calls about users and access control entries, in words instead of librdkafka's codes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ck_admin

WAIT: Final = {"request_timeout": REQUEST_TIMEOUT_MS / 1_000}
Result = Callable[[str, Any], Any]
"""Waits for a future of librdkafka; raises KafkaError naming what was asked."""


class User(NamedTuple):
    """A SCRAM credential: the user, the mechanism, and its iterations."""

    user: str
    mechanism: str
    iterations: int


class AclEntry(NamedTuple):
    """An access control entry, in Kafka's words."""

    principal: str
    permission: str
    operation: str
    resource: str
    name: str
    pattern: str
    host: str


def users(client: Any, result: Result) -> list[User]:
    """Return the credentials by user."""
    found = result("the users", client.describe_user_scram_credentials(None, **WAIT))
    return sorted(
        User(name, info.mechanism.name.replace("_", "-"), info.iterations)
        for name, described in found.items()
        for info in described.scram_credential_infos
    )


def set_user(client: Any, result: Result, user: str, password: str, mechanism: str, iterations: int) -> None:
    """Set a credential."""
    info = ck_admin.ScramCredentialInfo(_mechanism(mechanism), iterations)
    _alter(client, result, ck_admin.UserScramCredentialUpsertion(user, info, password.encode()))


def remove_user(client: Any, result: Result, user: str, mechanism: str) -> None:
    """Remove a credential."""
    _alter(client, result, ck_admin.UserScramCredentialDeletion(user, _mechanism(mechanism)))


def _mechanism(name: str) -> Any:
    return ck_admin.ScramMechanism[name.replace("-", "_")]


def _alter(client: Any, result: Result, change: Any) -> None:
    for user, future in client.alter_user_scram_credentials([change], **WAIT).items():
        result(f"user {user}", future)


def acls(client: Any, result: Result) -> list[AclEntry]:
    """Return all entries."""
    anything = ck_admin.AclBindingFilter(
        ck_admin.ResourceType.ANY,
        None,
        ck_admin.ResourcePatternType.ANY,
        None,
        None,
        ck_admin.AclOperation.ANY,
        ck_admin.AclPermissionType.ANY,
    )
    return sorted(_entry(each) for each in result("the access control entries", client.describe_acls(anything, **WAIT)))


def add_acls(client: Any, result: Result, entries: Sequence[AclEntry]) -> None:
    """Add entries."""
    for future in client.create_acls([ck_admin.AclBinding(*_codes(each)) for each in entries], **WAIT).values():
        result("the access control entry", future)


def remove_acls(client: Any, result: Result, entry: AclEntry) -> int:
    """Remove one entry; return how many there were."""
    (future,) = client.delete_acls([ck_admin.AclBindingFilter(*_codes(entry))], **WAIT).values()
    return len(result("the access control entry", future))


def _codes(entry: AclEntry) -> tuple[Any, ...]:
    kind = "BROKER" if entry.resource == "CLUSTER" else entry.resource  # librdkafka's word
    return (
        ck_admin.ResourceType[kind],
        entry.name,
        ck_admin.ResourcePatternType[entry.pattern],
        entry.principal,
        entry.host,
        ck_admin.AclOperation[entry.operation],
        ck_admin.AclPermissionType[entry.permission],
    )


def _entry(binding: Any) -> AclEntry:
    kind = binding.restype.name
    return AclEntry(
        binding.principal,
        binding.permission_type.name,
        binding.operation.name,
        "CLUSTER" if kind == "BROKER" else kind,
        binding.name,
        binding.resource_pattern_type.name,
        binding.host,
    )
