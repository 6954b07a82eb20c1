"""The rules of the commands about access control entries and SCRAM credentials. Pure, as all rules.

Source: Kafka's AclControlManager and ScramControlManager."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Final

from streamactors.broker.config.security_settings import SecuritySettings
from streamactors.broker.controller.command import (
    AclFilter,
    AclsDeleted,
    AlterScram,
    CreateAcls,
    DeleteAcls,
    Facts,
    Outcome,
    PlannedChange,
    ScramDeletion,
    ScramUpsert,
)
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import METADATA_VERSION
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE, ConfigRecord, MetadataRecord
from streamactors.broker.metadata.security_record import (
    AccessControlEntry,
    RemoveAccessControlEntry,
    RemoveUserScramCredential,
    UserScramCredential,
)
from streamactors.broker.security.host_networks import NotANetwork, is_network, parse_network
from streamactors.broker.security.rights import ANY_PATTERN, LITERAL, MATCHING_PATTERN, PREFIXED
from streamactors.broker.security.sasl.mechanism import MAX_ITERATIONS, MIN_ITERATIONS

ANY: Final = ANY_PATTERN  # the same code in every field of a filter
_RESOURCE_TYPES: Final = range(2, 8)
_OPERATIONS: Final = range(2, 16)
_PERMISSIONS: Final = (2, 3)
_SCRAM_MECHANISMS: Final = (1, 2)
SALT_SECRET: Final = SecuritySettings.sasl_scram_salt_secret.name
FIRST_WITH_NETWORKS: Final = 32
"""The level of metadata.version, 4.4-IV1, from which on the host of an entry may be a range of addresses."""
_NO_NETWORKS: Final = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
_CLUSTER: Final = 4
_CLUSTER_NAME: Final = "kafka-cluster"


def create_acls(facts: Facts, command: CreateAcls) -> PlannedChange:
    """Add entries, each independently of the others. An entry that exists makes neither an error nor a record."""
    level = facts.image.features.get(METADATA_VERSION, 0)
    known = {_content(entry) for entry in facts.image.acls.values()}
    records: list[MetadataRecord] = []
    answer: list[Outcome] = []
    for entry in command.entries:
        wrong = _why_not(entry)
        if wrong is not None:
            answer.append(Outcome(ErrorCode.INVALID_REQUEST, wrong))
        elif is_network(entry.host) and level < FIRST_WITH_NETWORKS:
            answer.append(Outcome(ErrorCode.UNSUPPORTED_VERSION, _NO_NETWORKS))
        elif (wrong := _why_not_network(entry.host)) is not None:
            answer.append(Outcome(ErrorCode.INVALID_REQUEST, wrong))
        else:
            if _content(entry) not in known:
                known.add(_content(entry))
                records.append(entry)
            answer.append(Outcome())
    return PlannedChange(records, answer)


def delete_acls(facts: Facts, command: DeleteAcls) -> PlannedChange:
    """Remove the entries that match the filters. Each filter is answered with its entries."""
    removed: dict[uuid.UUID, AccessControlEntry] = {}
    answer: list[AclsDeleted] = []
    for wanted in command.filters:
        found = tuple(entry for entry in facts.image.acls.values() if matches(wanted, entry))
        removed.update((entry.id, entry) for entry in found)
        answer.append(AclsDeleted(Outcome(), found))
    return PlannedChange([RemoveAccessControlEntry(each) for each in removed], answer)


def matches(wanted: AclFilter, entry: AccessControlEntry) -> bool:
    """Whether a filter of DescribeAcls and DeleteAcls matches an entry."""
    if wanted.resource_type not in (ANY, entry.resource_type):
        return False
    if wanted.operation not in (ANY, entry.operation) or wanted.permission_type not in (ANY, entry.permission_type):
        return False
    if wanted.principal not in (None, entry.principal) or wanted.host not in (None, entry.host):
        return False
    name, pattern = wanted.resource_name, wanted.pattern_type
    if pattern not in (ANY, MATCHING_PATTERN, entry.pattern_type):
        return False
    if name is None or name == entry.resource_name:
        return True
    if pattern != MATCHING_PATTERN:
        return False
    if entry.pattern_type == PREFIXED:
        return name.startswith(entry.resource_name)
    return entry.resource_name == "*"


def _content(entry: AccessControlEntry) -> tuple[object, ...]:
    return (
        entry.resource_type,
        entry.resource_name,
        entry.pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def _why_not(entry: AccessControlEntry) -> str | None:
    if entry.resource_type not in _RESOURCE_TYPES:
        return f"Invalid resourceType {entry.resource_type}"
    if entry.pattern_type not in (LITERAL, PREFIXED):
        return f"Invalid patternType {entry.pattern_type}"
    if entry.operation not in _OPERATIONS:
        return f"Invalid operation {entry.operation}"
    if entry.permission_type not in _PERMISSIONS:
        return f"Invalid permissionType {entry.permission_type}"
    if not entry.resource_name:
        return "Resource name should not be empty"
    if entry.resource_type == _CLUSTER and entry.resource_name != _CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {_CLUSTER_NAME}"
    kind, colon, name = entry.principal.partition(":")
    if not (kind and colon and name):
        return f"Could not parse principal from `{entry.principal}` (no colon is present separating the principal type from the principal name)"
    return None


def _why_not_network(host: str) -> str | None:
    if not is_network(host):
        return None
    try:
        parse_network(host)
    except NotANetwork as error:
        return f"Invalid CIDR notation '{host}': {error}"
    return None


def alter_scram(facts: Facts, command: AlterScram) -> PlannedChange:
    """Set and remove credentials. Each user's changes succeed or fail together."""
    answer: dict[str, Outcome] = {}
    records: dict[str, list[MetadataRecord]] = {}
    for change in command.changes:
        outcome = answer.get(change.name)
        if outcome is not None and outcome.code != ErrorCode.NONE:
            continue
        seen = records.setdefault(change.name, [])
        outcome = _scram_outcome(facts, change, seen)
        answer[change.name] = outcome
        if outcome.code != ErrorCode.NONE:
            continue
        if isinstance(change, ScramUpsert):
            seen.append(
                UserScramCredential(
                    change.name,
                    change.mechanism,
                    change.salt,
                    change.stored_key,
                    change.server_key,
                    change.iterations,
                )
            )
        else:
            seen.append(RemoveUserScramCredential(change.name, change.mechanism))
    good = [record for name, made in records.items() if answer[name].code == ErrorCode.NONE for record in made]
    if good and SALT_SECRET not in facts.image.configs.get((BROKER_RESOURCE, ""), {}):
        good.append(ConfigRecord(BROKER_RESOURCE, "", SALT_SECRET, command.salt_secret))
    return PlannedChange(good, answer)


def _scram_outcome(facts: Facts, change: ScramUpsert | ScramDeletion, seen: Iterable[MetadataRecord]) -> Outcome:
    name, mechanism = change.name, change.mechanism
    if not name:
        return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if mechanism not in _SCRAM_MECHANISMS:
        return Outcome(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if any(getattr(record, "mechanism", None) == mechanism for record in seen):
        return Outcome(
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        )
    if isinstance(change, ScramUpsert):
        if change.iterations < MIN_ITERATIONS:
            return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if change.iterations > MAX_ITERATIONS:
            return Outcome(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        return Outcome()
    if (name, mechanism) not in facts.image.scram:
        return Outcome(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return Outcome()
