"""The rules of AlterClientQuotas. Pure, as all rules.

Source: Kafka's ClientQuotaControlManager. Names of quotas and errors were compared with Apache Kafka 4.4.0."""

from __future__ import annotations

import math
from typing import Final

from streamactors.broker.controller.command import AlterQuotas, Facts, Outcome, PlannedChange, QuotaAlteration
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.security_record import ClientQuota, QuotaEntity

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = (USER, CLIENT_ID, IP)

_WHOLE_LONG: Final = "LONG"
_WHOLE_INT: Final = "INT"
_FRACTION: Final = "DOUBLE"
_LARGEST: Final = {_WHOLE_LONG: 2**63 - 1, _WHOLE_INT: 2**31 - 1}
_OF_CLIENTS: Final = {
    "producer_byte_rate": _WHOLE_LONG,
    "consumer_byte_rate": _WHOLE_LONG,
    "request_percentage": _FRACTION,
    "controller_mutation_rate": _FRACTION,
}
_OF_ADDRESSES: Final = {"connection_creation_rate": _WHOLE_INT}
_ALMOST: Final = 1e-6


def alter_quotas(facts: Facts, command: AlterQuotas) -> PlannedChange:
    """Change the quotas of each entity independently of the others. If an entity is named twice, the first change is made and the second
    refused; a change that names a quota twice is refused."""
    records: list[MetadataRecord] = []
    answer: list[Outcome] = []
    seen: set[frozenset[tuple[str, str | None]]] = set()
    for alteration in command.alterations:
        entity = frozenset(alteration.entity.items())
        keys = [key for key, _ in alteration.values]
        if entity in seen or len(set(keys)) < len(keys):
            shown = ", ".join(f"{kind}={each}" for kind, each in alteration.entity.items())
            wrong: str | None = f"Ignoring duplicate entity ClientQuotaEntity(entries={{{shown}}})"
        else:
            wrong = _why_not(alteration)
        seen.add(entity)
        answer.append(Outcome() if wrong is None else Outcome(ErrorCode.INVALID_REQUEST, wrong))
        if wrong is None and not command.validate_only:
            records += _changes(facts, alteration)
    return PlannedChange(records, answer)


def _changes(facts: Facts, alteration: QuotaAlteration) -> list[MetadataRecord]:
    """Return the records of the values that change."""
    entity = tuple(QuotaEntity(kind, name) for kind, name in sorted(alteration.entity.items()))
    now = facts.image.quotas.get(frozenset(entity), {})
    records: list[MetadataRecord] = []
    for key, value in alteration.values:
        if value is None and key in now:
            records.append(ClientQuota(entity, key, 0.0, remove=True))
        elif value is not None and now.get(key) != value:
            records.append(ClientQuota(entity, key, value))
    return records


def _why_not(alteration: QuotaAlteration) -> str | None:
    entity = alteration.entity
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity.items():
        if kind not in ENTITY_TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    if IP in entity and len(entity) > 1:
        return "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
    address = entity.get(IP)
    if address is not None and not alteration.resolved:
        return f"{address} is not a valid IP or resolvable host."
    known = _OF_ADDRESSES if IP in entity else _OF_CLIENTS
    for key, value in sorted(alteration.values):
        wrong = None if value is None else _why_not_value(known, key, value)
        if wrong is not None:
            return wrong
    return None


def _why_not_value(known: dict[str, str], key: str, value: float) -> str | None:
    kind = known.get(key)
    if kind is None:
        return f"Invalid configuration key {key}"
    if not math.isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    if kind == _FRACTION:
        return None
    if value > _LARGEST[kind]:
        return f"Proposed value for {key} is too large for {'an INT' if kind == _WHOLE_INT else 'a LONG'}."
    if abs(value - round(value)) > _ALMOST:
        return f"{key} cannot be a fractional value."
    return None
