"""The levels of the features by release of Apache Kafka: with which ones a new cluster begins, and to which ones an upgrade goes. Pure.

Owner: the format of a folder, the first controller of a cluster, and the command line. Source: Apache Kafka 4.4's MetadataVersion and
Feature.defaultLevel; tests/differential compares them with its storage tool."""

from __future__ import annotations

import re
from typing import Final

from streamactors.broker.controller.rules.elr_rules import ELR_VERSION, MIN_ISR
from streamactors.broker.controller.rules.feature_rules import KRAFT_VERSION, NEWEST_METADATA_VERSION, SUPPORTED
from streamactors.broker.metadata.image import (
    GROUP_VERSION,
    METADATA_VERSION,
    SHARE_VERSION,
    STREAMS_VERSION,
    TRANSACTION_VERSION,
)
from streamactors.broker.metadata.metadata_record import BROKER_RESOURCE, ConfigRecord, FeatureLevel, MetadataRecord

_FIRST_LEVELS: Final = (
    (KRAFT_VERSION, 21, 1),
    (TRANSACTION_VERSION, 24, 2),
    (GROUP_VERSION, 22, 1),
    (ELR_VERSION, 26, 1),
    (SHARE_VERSION, 28, 1),
    (SHARE_VERSION, 31, 2),
    (STREAMS_VERSION, 29, 1),
)
"""From a level of metadata.version on, the level with which a feature begins."""
_VERSIONS: Final = (
    "3.3-IV3 3.4-IV0 3.5-IV0 3.5-IV1 3.5-IV2 3.6-IV0 3.6-IV1 3.6-IV2 3.7-IV0 3.7-IV1 3.7-IV2 3.7-IV3 3.7-IV4 3.8-IV0 3.9-IV0 "
    "4.0-IV0 4.0-IV1 4.0-IV2 4.0-IV3 4.1-IV0 4.1-IV1 4.2-IV0 4.2-IV1 4.3-IV0 4.4-IV0 4.4-IV1 4.4-IV2"
)
LEVELS: Final = {name: level for level, name in enumerate(_VERSIONS.split(), 7)}
"""The level of each metadata.version, by its name."""


def levels_of(metadata_version: int) -> dict[str, int]:
    """Return the levels of a new cluster of Apache Kafka with this metadata.version, by feature; those with level 0 are left out."""
    made = {METADATA_VERSION: metadata_version}
    made.update({name: level for name, first, level in _FIRST_LEVELS if metadata_version >= first})
    return made


def default_levels(metadata_version: int = NEWEST_METADATA_VERSION) -> dict[str, int]:
    """Return the levels of a new cluster of these nodes: a feature is at most at the level that they support."""
    most = {each.name: each.max_level for each in SUPPORTED}
    return {name: min(level, most[name]) for name, level in levels_of(metadata_version).items()}


def level_of_release(release: str) -> int:
    """Return the metadata.version of a release: `4.4` and `4.4.0` are its newest one, `4.4-IV1` is one of them.

    Raises ValueError for an unknown release."""
    if release in LEVELS:
        return LEVELS[release]
    short = re.fullmatch(r"(\d+\.\d+)(\.\d+)*", release)
    found = [level for name, level in LEVELS.items() if short and name.startswith(f"{short[1]}-")]
    if not found:
        names = dict.fromkeys(name.partition("-")[0] for name in LEVELS)
        raise ValueError(f"release {release}: choose one of {', '.join(names)}")
    return max(found)


def first_features(formatted: list[MetadataRecord], min_isr: int) -> list[MetadataRecord]:
    """Return the records with which a cluster begins; `formatted` are those of the format of its first controller's folder.

    A folder that nobody formatted begins with the newest levels. kraft.version is no record: the log names its voters or does not."""
    made = list(formatted)
    levels = {each.name: each.level for each in formatted if isinstance(each, FeatureLevel)}
    if METADATA_VERSION not in levels:
        missing = {
            name: level for name, level in default_levels().items() if name not in levels and name != KRAFT_VERSION
        }
        levels |= missing
        made = [FeatureLevel(METADATA_VERSION, missing.pop(METADATA_VERSION)), *made]
        made += [FeatureLevel(*each) for each in missing.items()]
    if levels.get(ELR_VERSION):
        made.append(ConfigRecord(BROKER_RESOURCE, "", MIN_ISR, str(min_isr)))
    return made
