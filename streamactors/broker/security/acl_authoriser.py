"""The authoriser by access control entries, with the rules of Apache Kafka's StandardAuthorizer.

A super user may do everything. Else the entries of the resource decide: those of its name, of the wildcard `*`, and of prefixes of its
name. An entry that denies overrides all that allow. READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS, when
they allow.
If no entry decides, access is denied, except for a resource without any entry if `allow.everyone.if.no.acl.found` is true.
Owner: the data plane; helper threads ask, too. Decisions are remembered until the entries change."""

from __future__ import annotations

import logging
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.security.host_networks import (
    Network,
    NotANetwork,
    contains,
    is_network,
    parse_network,
)
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


class _Entries:
    """The entries, and the decisions by them. A change of the entries makes a new one, so a decision of another thread never outlives its entries."""

    def __init__(self, entries: Iterable[AccessControlEntry], networks: Mapping[str, Network], otherwise: bool) -> None:
        """`networks` are the ranges of addresses, by the host of their entries."""
        literal: defaultdict[tuple[int, str], list[AccessControlEntry]] = defaultdict(list)
        prefixed: defaultdict[int, list[AccessControlEntry]] = defaultdict(list)
        for entry in entries:
            if entry.pattern_type == PREFIXED:
                prefixed[entry.resource_type].append(entry)
            else:
                literal[entry.resource_type, entry.resource_name].append(entry)
        self.decisions: dict[tuple[str, str, int, int, str], bool] = {}
        self._literal, self._prefixed = dict(literal), dict(prefixed)
        self._networks = networks
        self._otherwise = otherwise

    def of_type(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> tuple[list[AccessControlEntry], list[AccessControlEntry]]:
        """Return the matching entries of a type that deny, and those that allow."""
        found = [entry for (kind, _), entries in self._literal.items() if kind == resource_type for entry in entries]
        found += self._prefixed.get(resource_type, [])
        matching = [entry for entry in found if self._matches(entry, principal, host, operation)]
        deny = [entry for entry in matching if entry.permission_type == DENY]
        return deny, [entry for entry in matching if entry.permission_type == ALLOW]

    def decide(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the entries of a resource allow an operation."""
        found_any = allowed = False
        for entry in self._on(resource_type, name):
            found_any = True
            if self._matches(entry, principal, host, operation):
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

    def _matches(self, entry: AccessControlEntry, principal: str, host: str, operation: Operation) -> bool:
        if entry.principal not in (principal, EVERYONE) or not self._is_at(entry.host, host):
            return False
        if entry.operation == Operation.ALL:
            return True
        if entry.permission_type == ALLOW and operation in _IMPLIES:
            return entry.operation in _IMPLIES[operation]
        return entry.operation == operation

    def _is_at(self, wanted: str, host: str) -> bool:
        """Whether a client is at the host of an entry, or within its range."""
        if wanted in (host, WILDCARD):
            return True
        network = self._networks.get(wanted)
        return network is not None and contains(network, host)


class AclAuthoriser:
    """Decides by access control entries, and caches its decisions until the entries change."""

    def __init__(self, super_users: Iterable[str], *, everyone_without_entries: bool) -> None:
        self._super_users = frozenset(super_users)
        self._otherwise = everyone_without_entries
        self._entries = _Entries((), {}, everyone_without_entries)
        self._reported: set[uuid.UUID] = set()  # the entries that match no client

    def use(self, entries: Iterable[AccessControlEntry]) -> None:
        """Replace the entries. On the data plane's thread."""
        networks: dict[str, Network] = {}
        wrong = set()
        kept = list(entries)
        for entry in kept:
            if is_network(entry.host):
                try:
                    networks[entry.host] = parse_network(entry.host)
                except NotANetwork as error:
                    wrong.add(entry.id)
                    self._report(entry, error)
        self._entries, self._reported = _Entries(kept, networks, self._otherwise), wrong

    def _report(self, entry: AccessControlEntry, why: NotANetwork) -> None:
        if entry.id not in self._reported:
            _log.warning(
                "the access control entry of %s on %s for host %s matches no client: %s; replace it by an entry for a range such as 10.0.0.0/8",
                entry.principal,
                entry.resource_name,
                entry.host,
                why,
            )

    def allowed(self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the principal may do this from this host."""
        if principal in self._super_users:
            return True
        entries = self._entries
        decisions, key = entries.decisions, (principal, host, int(operation), int(resource_type), name)
        decision = decisions.get(key)
        if decision is None:
            if len(decisions) >= _REMEMBERED:
                decisions.clear()
            decision = decisions[key] = entries.decide(principal, host, operation, resource_type, name)
        return decision

    def allowed_on_any(self, principal: str, host: str, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the principal may do this on at least one resource of the type (KIP-679)."""
        if principal in self._super_users:
            return True
        deny, allow = self._entries.of_type(principal, host, operation, resource_type)
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


def super_users_of(text: str) -> frozenset[str]:
    """Return the principals of `super.users`, which are separated by semicolons."""
    return frozenset(each.strip() for each in text.split(";") if each.strip())
