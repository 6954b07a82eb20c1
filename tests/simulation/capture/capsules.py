"""Capsules made by hand, for replays without a cluster."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, CapturedTopic, Kind, Slice

SINCE_MS = 1_700_000_000_000
GROUP = "readers"


def record(
    offset: int,
    value: bytes | None,
    *,
    key: bytes | None = None,
    at_ms: int | None = None,
    topic: str = "in",
    partition: int = 0,
    headers: Any = (),
) -> CapturedRecord:
    """Return a record whose time is `at_ms` after the begin of the span; by default 100 ms for each offset."""
    return CapturedRecord(
        topic, partition, offset, SINCE_MS + (offset * 100 if at_ms is None else at_ms), key, value, tuple(headers)
    )


def slice_of(
    records: Iterable[CapturedRecord],
    *,
    topic: str = "in",
    partition: int = 0,
    begin: int | None = None,
    end: int | None = None,
    committed: int | None = None,
) -> Slice:
    """Return a slice of records; by default it begins at the first and ends after the last of them."""
    held = tuple(records)
    begin = (held[0].offset if held else 0) if begin is None else begin
    end = (held[-1].offset + 1 if held else begin) if end is None else end
    return Slice(topic, partition, begin, end, 0, committed, held)


def capsule_of(
    *slices: Slice,
    kinds: Mapping[str, Kind] | None = None,
    settings: Mapping[str, Mapping[str, str]] | None = None,
    group: str = GROUP,
    lasts_ms: int = 60_000,
    **more: Any,
) -> Capsule:
    """Return a capsule of slices, whose topics have as many partitions as slices."""
    names = dict.fromkeys(each.topic for each in slices)
    topics = tuple(
        CapturedTopic(
            name,
            (kinds or {}).get(name, Kind.INPUT),
            max(each.partition for each in slices if each.topic == name) + 1,
            (settings or {}).get(name, {}),
        )
        for name in names
    )
    return Capsule(group, "cluster", SINCE_MS + lasts_ms, SINCE_MS, True, topics, slices, **more)
