"""Putting a capsule into a simulated cluster: topics, state, offsets; and the order in which the records of the span arrive.

Owner: a replay. It runs in the world, with simulated clients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from streamactors.kafka.client.connection import ck
from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, CapturedTopic, Kind, Slice
from streamactors.simulation.capture.limiting import weight
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.cluster.partitions.batch import Batch
from streamactors.simulation.cluster.partitions.partition import Partition

KEPT: Final = ("cleanup.policy", "message.timestamp.type", "max.message.bytes")
"""Settings of topics that a replay has. Retention is not among them: it would delete what was captured."""
_LARGEST: Final = 1_048_588


class Begin(StrEnum):
    """Where a replay begins."""

    START = "start"
    """At the first record of the span, with the state of that time."""
    COMMITTED = "committed"
    """At the group's committed offsets, with its newest state."""


class Arrival(NamedTuple):
    """A record, and when it arrives: ms since 1970, not before the span and never before an earlier record of its partition."""

    at_ms: int
    record: CapturedRecord


def arriving(capsule: Capsule, begin: Begin) -> list[Arrival]:
    """Return the records that arrive in a replay, in the order of their arrival."""
    found: list[Arrival] = []
    for each in capsule.of(Kind.INPUT, Kind.TABLE):
        at_ms = capsule.since_ms
        for record in each.records:
            if record.offset >= begin_of(each, begin):
                at_ms = max(at_ms, min(record.timestamp_ms, capsule.taken_ms))
                found.append(Arrival(at_ms, record))
    return sorted(found, key=lambda each: (each.at_ms, each.record[:3]))


def begin_of(each: Slice, begin: Begin) -> int:
    """Return the offset at which a replay begins in a partition."""
    if begin is Begin.START or each.committed is None:
        return each.begin
    return max(each.begin, each.committed)


def load(cluster: SimulatedCluster, capsule: Capsule, begin: Begin) -> None:
    """Create the topics, with what they have before the replay begins, and commit the group's offsets."""
    largest = max((weight(record) for each in capsule.slices for record in each.records), default=0)
    for topic in capsule.topics:
        cluster.create_topic(topic.name, topic.partitions, 1, _settings(topic, largest))
    offsets: dict[str, list[Any]] = {capsule.group: []}
    for each in capsule.of(Kind.INPUT, Kind.TABLE):
        at = begin_of(each, begin)
        _append(cluster, each, (record for record in each.records if record.offset < at and _is_table(capsule, each)))
        _partition(cluster, each).skip_to(at)
        if begin is Begin.START or each.committed is not None:
            offsets[capsule.group].append(ck.TopicPartition(each.topic, each.partition, at))
    behind = _behind(capsule.of(Kind.INPUT, Kind.TABLE))
    for each in capsule.of(Kind.CHANGELOG):
        newest = begin is Begin.COMMITTED or behind.get(each.partition, False)
        _append(cluster, each, (record for record in each.records if newest or record.offset < each.begin))
    for each in capsule.of(Kind.REPARTITION) if begin is Begin.COMMITTED else ():
        _append(cluster, each, each.records)
        _partition(cluster, each).skip_to(each.begin)
        offsets.setdefault(each.topic, []).append(ck.TopicPartition(each.topic, each.partition, each.begin))
    for group, places in offsets.items():
        _commit(group, places)


def _is_table(capsule: Capsule, each: Slice) -> bool:
    return any(topic.name == each.topic and topic.kind is Kind.TABLE for topic in capsule.topics)


def _settings(topic: CapturedTopic, largest: int) -> Mapping[str, str]:
    settings = {name: value for name, value in topic.settings.items() if name in KEPT}
    if topic.kind is not Kind.OTHER:
        settings["max.message.bytes"] = str(max(int(settings.get("max.message.bytes", _LARGEST)), largest + _LARGEST))
    return {**settings, "retention.ms": "-1", "retention.bytes": "-1"}


def _behind(slices: Iterable[Slice]) -> dict[int, bool]:
    """Return for each partition number whether the group has read nothing of the span: then its newest state is that of the begin."""
    behind: dict[int, bool] = {}
    for each in slices:
        behind[each.partition] = each.is_behind and behind.get(each.partition, True)
    return behind


def _partition(cluster: SimulatedCluster, each: Slice) -> Partition:
    found = cluster.topics.get(each.topic, each.partition)
    assert found is not None
    return found


def _append(cluster: SimulatedCluster, each: Slice, records: Iterable[CapturedRecord]) -> None:
    for record in records:
        put(_partition(cluster, each), record)


def put(partition: Partition, record: CapturedRecord) -> None:
    """Append a record at its offset."""
    partition.skip_to(record.offset)
    row = (record.key, record.value, record.timestamp_ms, record.headers or None)
    errors: list[Any] = []
    partition.append(Batch([row]), lambda error, base, time: errors.append(error))
    if errors and errors[0]:
        raise AssertionError(f"{record.place} cannot be loaded: {errors[0].name}")


def _commit(group: str, places: list[Any]) -> None:
    if places:
        client = ck.Consumer({"bootstrap.servers": "capsule", "group.id": group, "enable.auto.commit": False})
        client.commit(offsets=places, asynchronous=False)
        client.close()
