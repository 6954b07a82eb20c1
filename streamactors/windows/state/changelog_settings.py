"""The settings of changelog topics, as Kafka Streams gives them.

A changelog of windows or of sessions is compacted and deleted: the broker drops entries that no reader can see any more, also when nobody runs. A
changelog of versions keeps old entries from compaction for as long as its history. Every other changelog is compacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ADDITIONAL_MS: Final = 24 * 60 * 60 * 1_000
"""Kafka Streams' windowstore.changelog.additional.retention.ms."""
COMPACTED: Final[Mapping[str, str]] = {"cleanup.policy": "compact"}
_LONGEST_MS: Final = (1 << 63) - 1


def expiring(retention_ms: int) -> Mapping[str, str]:
    """Return the settings of a store that hides entries older than its retention; a retention without end only compacts."""
    kept_ms = retention_ms + ADDITIONAL_MS
    if kept_ms > _LONGEST_MS:
        return COMPACTED
    return {"cleanup.policy": "compact,delete", "retention.ms": str(kept_ms)}


def versioned(history_ms: int) -> Mapping[str, str]:
    """Return the settings of a store with versions of the past."""
    lag_ms = min(history_ms + ADDITIONAL_MS, _LONGEST_MS)
    return {"cleanup.policy": "compact", "min.compaction.lag.ms": str(lag_ms)}
