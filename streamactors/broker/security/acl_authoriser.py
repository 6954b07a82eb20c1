"""The authoriser by access control entries, with the rules of Apache Kafka's StandardAuthorizer.

A super user may do everything. Else the entries of the resource decide: those of its name, of the wildcard `*`, and of prefixes of its
name. One that denies beats all that allow. READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS, when they allow.
Without a decision the answer is no, or yes for a resource without any entry if `allow.everyone.if.no.acl.found`.
Owner: the data plane. Decisions are remembered until the entries change."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Final

from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.security.rights import LITERAL, PREFIXED, Operation, ResourceType

_log = logging.getLogger("streamactors.broker.security")

DENY: Final = 2
ALLOW: Final = 3
WILDCARD: Final = "*"
EVERYONE: Final = "User:*"
_REMEMBERED: Final = 10_000
_IMPLIES: Final = {
    Operation.DESCRIBE: frozenset(
        {Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    ),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}),
}


def is_network(host: str) -> bool:
    """Whether the host of an entry is a range of addresses in CIDR form, or is meant to be one. This broker compares hosts as they are."""
    return "/" in host


class AclAuthoriser:
    """See the module."""

    def __init__(self, super_users: Iterable[str], *, everyone_without_entries: bool) -> None:
        self._super_users = frozenset(super_users)
        self._otherwise = everyone_without_entries
        self._literal: dict[tuple[int, str], list[AccessControlEntry]] = {}
        self._prefixed: dict[int, list[AccessControlEntry]] = {}
        self._decisions: dict[tuple[str, str, int, int, str], bool] = {}
        self._reported: set[uuid.UUID] = set()  # the entries that match no client

    def use(self, entries: Iterable[AccessControlEntry]) -> None:
        """Replace the entries."""
        literal: defaultdict[tuple[int, str], list[AccessControlEntry]] = defaultdict(list)
        prefixed: defaultdict[int, list[AccessControlEntry]] = defaultdict(list)
        ranges = set()
        for entry in entries:
            if is_network(entry.host):
                ranges.add(entry.id)
                if entry.id not in self._reported:
                    _log.warning(
                        "the access control entry of %s on %s for host %s matches no client, because this broker has no CIDR hosts (metadata.version 4.4-IV1): "
                        "replace it by an entry for each address",
                        entry.principal,
                        entry.resource_name,
                        entry.host,
                    )
            if entry.pattern_type == PREFIXED:
                prefixed[entry.resource_type].append(entry)
            else:
                literal[entry.resource_type, entry.resource_name].append(entry)
        self._literal, self._prefixed = dict(literal), dict(prefixed)
        self._reported = ranges
        self._decisions.clear()

    def allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the principal may do this from this host."""
        key = (principal, host, int(operation), int(resource_type), name)
        decision = self._decisions.get(key)
        if decision is None:
            if len(self._decisions) >= _REMEMBERED:
                self._decisions.clear()
            decision = self._decisions[key] = self._decide(principal, host, operation, resource_type, name)
        return decision

    def allowed_on_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this on at least one resource of the type (KIP-679)."""
        if principal in self._super_users:
            return True
        deny, allow = self._of_type(principal, host, operation, resource_type)
        denied_names = {(entry.pattern_type, entry.resource_name) for entry in deny}
        if (LITERAL, WILDCARD) in denied_names:
            return False
        if self._otherwise and not allow:
            return True
        denied_prefixes = [name for pattern, name in denied_names if pattern == PREFIXED]
        for entry in allow:
            if entry.pattern_type == LITERAL and (LITERAL, entry.resource_name) in denied_names:
                continue
            if entry.resource_name == WILDCARD and entry.pattern_type == LITERAL:
                return True
            if not any(entry.resource_name.startswith(prefix) for prefix in denied_prefixes):
                return True
        return False

    def _of_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> tuple[list[AccessControlEntry], list[AccessControlEntry]]:
        found = [entry for (kind, _), entries in self._literal.items() if kind == resource_type for entry in entries]
        found += self._prefixed.get(resource_type, [])
        matching = [entry for entry in found if _matches(entry, principal, host, operation)]
        deny = [entry for entry in matching if entry.permission_type == DENY]
        return deny, [entry for entry in matching if entry.permission_type == ALLOW]

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if principal in self._super_users:
            return True
        found_any = allowed = False
        for entry in self._on(resource_type, name):
            found_any = True
            if _matches(entry, principal, host, operation):
                if entry.permission_type == DENY:
                    return False
                allowed = True
        return allowed or (self._otherwise and not found_any)

    def _on(self, resource_type: ResourceType, name: str) -> Iterator[AccessControlEntry]:
        yield from self._literal.get((resource_type, name), ())
        if name != WILDCARD:
            yield from self._literal.get((resource_type, WILDCARD), ())
        for entry in self._prefixed.get(resource_type, ()):
            if name.startswith(entry.resource_name):
                yield entry


def _matches(entry: AccessControlEntry, principal: str, host: str, operation: Operation) -> bool:
    if entry.principal not in (principal, EVERYONE) or entry.host not in (host, WILDCARD):
        return False
    if entry.operation == Operation.ALL:
        return True
    if entry.permission_type == ALLOW and operation in _IMPLIES:
        return entry.operation in _IMPLIES[operation]
    return entry.operation == operation


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of a `super.users`, which stand between semicolons."""
    return frozenset(each.strip() for each in text.split(";") if each.strip())
