"""The admin client's calls about users, access control entries and rights, in words instead of librdkafka's codes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.connection import REQUEST_TIMEOUT_MS, ck, ck_admin
from streamactors.kafka.client.diagnosis.rights import DENIED, Right

WAIT: Final = {"request_timeout": REQUEST_TIMEOUT_MS / 1_000}
Result = Callable[[str, Any, tuple[str, str, str]], Any]
"""Waits for a future of librdkafka; raises KafkaError naming what was asked, and a missing right."""
DESCRIBE: Final = ("DESCRIBE", "CLUSTER", "")
ALTER: Final = ("ALTER", "CLUSTER", "")


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
    found = result("the users", client.describe_user_scram_credentials(None, **WAIT), DESCRIBE)
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
        result(f"user {user}", future, ALTER)


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
    return sorted(
        _entry(each) for each in result("the access control entries", client.describe_acls(anything, **WAIT), DESCRIBE)
    )


def add_acls(client: Any, result: Result, entries: Sequence[AclEntry]) -> None:
    """Add entries."""
    for future in client.create_acls([ck_admin.AclBinding(*_codes(each)) for each in entries], **WAIT).values():
        result("the access control entry", future, ALTER)


def remove_acls(client: Any, result: Result, entry: AclEntry) -> int:
    """Remove one entry; return how many there were."""
    (future,) = client.delete_acls([ck_admin.AclBindingFilter(*_codes(entry))], **WAIT).values()
    return len(result("the access control entry", future, ALTER))


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


def missing_rights(client: Any, rights: Iterable[Right]) -> list[Right]:
    """Return those of some rights on topics, groups and the cluster that the user of an admin client lacks.

    A broker without an authoriser, and a topic that does not exist, lack none."""
    wanted = list(dict.fromkeys(rights))
    topics = sorted({right.name for right in wanted if right.resource == "TOPIC"})
    groups = sorted({right.name for right in wanted if right.resource == "GROUP"})
    options = {"include_authorized_operations": True, **WAIT}
    answers: dict[tuple[str, str], Any] = {}
    if topics:
        found = client.describe_topics(ck.TopicCollection(topics), **options)
        answers |= {("TOPIC", name): future for name, future in found.items()}
    if groups:
        answers |= {("GROUP", name): each for name, each in client.describe_consumer_groups(groups, **options).items()}
    if any(right.resource == "CLUSTER" for right in wanted):
        answers["CLUSTER", ""] = client.describe_cluster(**options)
    allowed = {place: _allowed(place, future) for place, future in answers.items()}
    return [
        right
        for right in wanted
        if (operations := allowed.get((right.resource, right.name))) is not None and right.operation not in operations
    ]


def _allowed(place: tuple[str, str], future: Any) -> set[str] | None:
    """Return the operations that are allowed on a resource, None if the broker does not report them."""
    try:
        operations = future.result().authorized_operations
    except ck.KafkaException as error:
        return set() if error.args[0].code() in DENIED else None
    if not operations and place[0] != "CLUSTER":
        return None  # whoever may not even DESCRIBE a topic or a group gets an error
    return {operation.name for operation in operations or ()}
