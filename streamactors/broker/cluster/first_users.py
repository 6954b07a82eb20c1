"""Creates the users and the access control entries of a `Cluster` of several brokers, by requests to the running nodes.

Owner: `SeveralBrokers`. A single broker writes them before its listener opens. Several nodes must have elected a controller first."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.security.first_users import entry_of
from streamactors.broker.security.sasl.mechanism import MIN_ITERATIONS
from streamactors.broker.security.sasl.scram import HASHES

ALTER_SCRAM: Final = (51, 0)
DESCRIBE_SCRAM: Final = (50, 0)
CREATE_ACLS: Final = (30, 3)
DESCRIBE_ACLS: Final = (29, 3)
ANY: Final = 1
_SALT_BYTES: Final = 24

Ask = Callable[[tuple[int, int], Mapping[str, Any]], Any]
"""Sends a request of (key, version) to a node, and returns the answer."""


def add_users(ask: Ask, users: Mapping[str, str]) -> None:
    """Set the SCRAM credentials of users, by name. Raises BrokerStartError."""
    upsertions = []
    for name, password in users.items():
        for kind in HASHES.values():
            salt = secrets.token_bytes(_SALT_BYTES)
            upsertions.append(
                {
                    "name": name,
                    "mechanism": kind.code,
                    "iterations": MIN_ITERATIONS,
                    "salt": salt,
                    "salted_password": kind.salted(password.encode(), salt, MIN_ITERATIONS),
                }
            )
    _check("the users", ask(ALTER_SCRAM, {"deletions": [], "upsertions": upsertions}).results)


def add_acls(ask: Ask, acls: Sequence[Mapping[str, str]]) -> None:
    """Create access control entries. Raises BrokerStartError."""
    creations = [_creation(entry_of(words)) for words in acls]
    _check("the access control entries", ask(CREATE_ACLS, {"creations": creations}).results)


def knows(ask: Ask, users: Mapping[str, str], acls: Sequence[Mapping[str, str]]) -> bool:
    """Whether a node has the credentials of these users, and these entries."""
    listed = ask(DESCRIBE_SCRAM, {"users": None}).results
    if not users.keys() <= {each.user for each in listed if len(each.credential_infos) == len(HASHES)}:
        return False
    every = {"resource_type_filter": ANY, "pattern_type_filter": ANY, "operation": ANY, "permission_type": ANY}
    none = {"resource_name_filter": None, "principal_filter": None, "host_filter": None}
    if not acls:
        return True
    there = {
        (found.resource_type, found.resource_name, found.pattern_type, each.principal, each.host, each.operation)
        for found in ask(DESCRIBE_ACLS, {**every, **none}).resources
        for each in found.acls
    }
    wanted = map(entry_of, acls)
    return there >= {
        (each.resource_type, each.resource_name, each.pattern_type, each.principal, each.host, each.operation)
        for each in wanted
    }


def _creation(entry: AccessControlEntry) -> dict[str, Any]:
    return {
        "resource_type": entry.resource_type,
        "resource_name": entry.resource_name,
        "resource_pattern_type": entry.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission_type,
    }


def _check(what: str, results: Sequence[Any]) -> None:
    for each in results:
        if each.error_code:
            raise BrokerStartError(f"{what} of the Cluster: {each.error_message or ErrorCode(each.error_code).name}")
