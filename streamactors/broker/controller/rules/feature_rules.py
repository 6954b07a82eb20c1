"""The features of the cluster: which levels this node supports, and the rules by which a level changes. Pure.

Owner: the controller. Checks, their order and messages: Apache Kafka's FeatureControlManager (KIP-584, KIP-778, KIP-1022)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamactors.broker.controller.command import Facts, Outcome, PlannedChange
from streamactors.broker.controller.rules.elr_rules import ELR_VERSION, MIN_ISR
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import (
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    ClearElr,
    ConfigRecord,
    Feature,
    FeatureLevel,
    MetadataRecord,
)
from streamactors.broker.quorum.voter_set import KRAFT_VERSIONS

KRAFT_VERSION: Final = "kraft.version"
NEWEST_METADATA_VERSION: Final = 33
"""4.4-IV2; a new cluster begins with it."""
UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3

# A level is named only if all of it is implemented. metadata.version is from 3.3-IV3, the lowest of Apache Kafka 4, to 4.4-IV2.
SUPPORTED: Final = (
    Feature(METADATA_VERSION, 7, NEWEST_METADATA_VERSION),
    Feature(TRANSACTION_VERSION, 0, 2),
    Feature(GROUP_VERSION, 0, 1),
    Feature(SHARE_VERSION, 0, 2),
    Feature(STREAMS_VERSION, 0, 1),
    Feature(ELR_VERSION, 0, 1),
    Feature(KRAFT_VERSION, *KRAFT_VERSIONS),
)
FIRST_WITH_ELR: Final = 23
"""The level of metadata.version, 4.0-IV1, from which on partitions have eligible leader replicas."""
_WITH_OTHER_RECORDS: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30, 32, 33})
"""Levels of metadata.version that brought records which a lower level does not have."""


class FeatureUpdate(NamedTuple):
    """A level that a feature is to get; `kind` says whether it may go down."""

    name: str
    level: int
    kind: int = UPGRADE


@dataclass(frozen=True, slots=True)
class UpdateFeatures:
    """Change the levels of features, all or none. Answer: an Outcome."""

    updates: tuple[FeatureUpdate, ...]
    validate_only: bool = False

    @property
    def kraft_level(self) -> int:
        """The level that kraft.version is to get, 0 if it stays."""
        return max((each.level for each in self.updates if each.name == KRAFT_VERSION), default=0)

    def refused(self, outcome: Outcome) -> Outcome:
        return outcome


def update_features(facts: Facts, command: UpdateFeatures) -> PlannedChange:
    """Return the records of the new levels, or the reason why one feature cannot have its level."""
    records: list[MetadataRecord] = []
    levels = {**facts.image.features, **{each.name: each.level for each in command.updates}}
    for update in command.updates:
        why = _complaint(facts, update, levels)
        if why is not None:
            text = f"The update failed for all features since the following feature had an error: {why}"
            return PlannedChange([], Outcome(ErrorCode.INVALID_UPDATE_VERSION, text))
        records += _records(facts, update)
    return PlannedChange([] if command.validate_only else records, Outcome())


def _records(facts: Facts, update: FeatureUpdate) -> list[MetadataRecord]:
    """Return the records of one change."""
    if update.name == KRAFT_VERSION:  # the quorum keeps it in control records
        return []
    made: list[MetadataRecord] = [FeatureLevel(update.name, update.level)]
    if update.name == ELR_VERSION and update.level:
        if (
            MIN_ISR not in facts.image.cluster_overrides()
        ):  # who is eligible depends on it, so all brokers need the same number
            made.append(ConfigRecord(BROKER_RESOURCE, "", MIN_ISR, str(facts.config.min_insync_replicas)))
    elif update.name == ELR_VERSION:
        made.append(ClearElr(""))
    return made


def _complaint(facts: Facts, update: FeatureUpdate, levels: Mapping[str, int]) -> str | None:
    """Return the reason against one update, None if there is none. `levels` are those of all features after the whole command."""
    name, level, kind = update
    now = facts.kraft_version if name == KRAFT_VERSION else facts.image.features.get(name, 0)
    prefix = f"Invalid update version {level} for feature {name}. "
    if kind not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        return f"{prefix}The controller does not support the given upgrade type."
    if level < 0:
        return f"{prefix}A feature version cannot be less than 0."
    why = _why_not_supported(facts, name, level)
    if why is not None:
        return prefix + why
    if all(each.name != name for each in SUPPORTED):
        return f"{prefix}Feature {name} not found."
    if level < now and kind == UPGRADE:
        return (
            f"{prefix}Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if level > now and kind != UPGRADE:
        return f"{prefix}Can't downgrade to a newer version."
    if name == KRAFT_VERSION:
        if level < now:
            return f"{prefix}kraft.version cannot be downgraded: the metadata log names its voters already."
        why = facts.kraft_obstacle() if level > now else None
        return None if why is None else f"{prefix}The voters cannot be named in the metadata log, because {why}."
    if levels.get(ELR_VERSION, 0) and levels.get(METADATA_VERSION, 0) < FIRST_WITH_ELR:
        return f"{ELR_VERSION} could not be set to 1 because it depends on {METADATA_VERSION} level {FIRST_WITH_ELR}"
    if name == METADATA_VERSION and any(level < each <= now for each in _WITH_OTHER_RECORDS):
        unsafe = kind == UNSAFE_DOWNGRADE
        return f"Unsupported metadata.version downgrade from {now} to {level}. " + (
            "Unsafe metadata downgrade is not supported in this version."
            if unsafe
            else "Refusing to perform the requested downgrade because it might delete metadata information."
        )
    return None


def _why_not_supported(facts: Facts, name: str, level: int) -> str | None:
    """Return which node does not support a level of a feature, and why; None if every node supports it."""
    image = facts.image
    nodes: list[tuple[str, Iterable[Feature]]] = [(f"Local controller {facts.broker_id}", SUPPORTED)]
    nodes += [(f"Controller {each.controller_id}", each.features) for each in image.controllers.values()]
    nodes += [(f"Broker {each.broker_id}", each.features) for each in image.brokers.values() if each.features]
    for node, features in nodes:
        found = next((each for each in features if each.name == name), None)
        if found is None and level:
            return f"{node} does not support this feature."
        if found is not None and not found.min_level <= level <= found.max_level:
            low, high = found.min_level, found.max_level
            return f"{node} only supports versions {low if low == high else f'{low}-{high}'}"
    return None
