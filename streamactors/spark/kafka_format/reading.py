"""The reading side of `streamactors-kafka`: which ranges a batch has, and the rows of a range.

Streams are planned by the planner of graphs on executors, so they notice deleted records, new partitions, and a checkpoint of another topic."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from streamactors.collector import collecting_seldom
from streamactors.errors import BuildError
from streamactors.kafka.client import admin
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.errors import RecordsGone, TopicNotFound
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.kafka.reading.record_batches import record_batch
from streamactors.kafka.subscriptions import Subscription, Subscriptions, TopicPartition
from streamactors.spark.executors.offsets import name_of
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.format_options import TO_SKIP
from streamactors.spark.kafka_format.options import (
    EARLIEST,
    FORMAT,
    LATEST,
    Offsets,
    ReadOptions,
    read_options,
    stream_options,
)
from streamactors.spark.query.source_identity import SourceIdentity
from streamactors.spark.sink.batch_size import MAX_ROWS, TARGET_BATCH_S

Slice = tuple[str, int, int, int]
"""What a task reads: topic, partition, first offset, offset behind the last."""

ROWS: Final = 4_000
"""Rows of a record batch: with fewer, Spark's work for each batch shows. librdkafka holds a few megabytes, so large records make small batches."""

KEPT: Final = 4
"""Planners and connections that a process keeps; a query needs one of each."""


def batch_ranges(options: Mapping[str, str]) -> list[Slice]:
    """Return the tasks of a plain read. Raises BuildError, TopicNotFound."""
    what = read_options(options)
    with Admin(what.settings) as client:
        keys = _partitions(client, what)
        starts = _places(client, keys, what.starting or "earliest", "startingOffsets", skip_lost=what.skip_lost)
        ends = _places(client, keys, what.ending, "endingOffsets", skip_lost=what.skip_lost)
    for key in keys:
        if starts[key] > ends[key] and _is_given(what.ending, key):
            raise BuildError(
                f"{FORMAT}: the read of {key} would end at {ends[key]} (endingOffsets), before it begins at {starts[key]} (startingOffsets)"
            )
    return [(*key, starts[key], ends[key]) for key in keys if starts[key] < ends[key]]


def planner_of(options: Mapping[str, str]) -> Planner:
    """Return the planner of a stream; the same one for the same options."""
    return _planner(json.dumps(options, sort_keys=True))


def rows_of(options: Mapping[str, str], part: Slice) -> Iterator[Any]:
    """Yield the rows of a task as record batches."""
    topic, partition, start, end = part
    headers = read_options(options).headers
    reader = _reader(json.dumps(options, sort_keys=True))
    with collecting_seldom():
        for messages in reader.read(TopicPartition(topic, partition), start, end, ROWS):
            yield record_batch(messages, headers=headers)


@lru_cache(KEPT)
def _planner(options: str) -> Planner:
    what = stream_options(json.loads(options))
    of: Subscription = Subscriptions.topics(*what.topics) if what.topics else Subscriptions.assignment(*what.partitions)

    def begin() -> dict[str, int]:
        with Admin(what.settings) as client:
            keys = _partitions(client, what)
            places = _places(client, keys, what.starting or "latest", "startingOffsets", skip_lost=what.skip_lost)
            return _named(places)

    with Admin(what.settings) as client:
        keys = _partitions(client, what)
    where = StartPositions(what.settings, of, False, lambda _: None)
    return Planner(
        Plans(
            settings=what.settings,
            subscription=of,
            first=_named(dict.fromkeys(keys, 0)),
            ends=None,
            commits=False,
            windows=False,
            idle_after_ms=None,
            state_folder="",
            max_rows=what.most or MAX_ROWS,
            target_ms=TARGET_BATCH_S * 1_000,
            skip_lost=what.skip_lost,
            to_skip=TO_SKIP,
            topics=what.topics,
            source=SourceIdentity(where.label, where.identity()),
        ),
        begin,
    )


@lru_cache(KEPT)
def _reader(options: str) -> RangeReader:
    what = read_options(json.loads(options))
    return RangeReader(what.settings, skip_lost=what.skip_lost, to_skip=TO_SKIP)


def _partitions(client: Admin, what: ReadOptions) -> list[TopicPartition]:
    there = {topic.name: topic.partitions for topic in client.topics()}
    for topic in what.topics or sorted({key.topic for key in what.partitions}):
        if topic not in there:
            raise TopicNotFound(
                f"no topic {topic} at {what.settings.bootstrap_servers}; create it with: streamactors topics create {topic}"
            )
    for key in what.partitions:
        if key.partition not in range(there[key.topic]):
            raise BuildError(
                f"{FORMAT}: option assign names {key}, and the partitions of topic {key.topic} are 0 to {there[key.topic] - 1}"
            )
    if what.partitions:
        return list(what.partitions)
    return [TopicPartition(topic, number) for topic in sorted(what.topics) for number in range(there[topic])]


def _named(found: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {name_of(key): place for key, place in found.items()}


def _places(
    client: Admin, keys: list[TopicPartition], wanted: Offsets, option: str, *, skip_lost: bool
) -> dict[TopicPartition, int]:
    """Return an offset for each partition. Raises BuildError, RecordsGone for an offset that the partition does not have."""
    if isinstance(wanted, str):
        return client.offsets(
            dict.fromkeys(keys, admin.EARLIEST if wanted == "earliest" else admin.LATEST), committed=True
        )
    if set(wanted) != set(keys):
        missing, foreign = sorted(set(keys) - set(wanted)), sorted(set(wanted) - set(keys))
        said = [f"lacks {', '.join(map(str, missing))}"] * bool(missing) + [
            f"names {', '.join(map(str, foreign))}, which is not read"
        ] * bool(foreign)
        raise BuildError(f"{FORMAT}: option {option} {' and '.join(said)}")
    ends = {LATEST: admin.LATEST, EARLIEST: admin.EARLIEST}
    asked = client.offsets({key: ends[place] for key, place in wanted.items() if place in ends}, committed=True)
    given = {key: place for key, place in wanted.items() if place not in ends}
    return {**asked, **_existing(client, given, option, skip_lost=skip_lost)}


def _existing(
    client: Admin, given: Mapping[TopicPartition, int], option: str, *, skip_lost: bool
) -> dict[TopicPartition, int]:
    """Return offsets that a user has given; with `skip_lost` the nearest ones that exist. Raises RecordsGone naming an offset that does not."""
    lows = client.offsets(dict.fromkeys(given, admin.EARLIEST))
    highs = client.offsets(dict.fromkeys(given, admin.LATEST))
    found = {key: min(max(place, lows[key]), highs[key]) for key, place in given.items()}
    lost = [
        f"{place} for {key}, which {'ends' if place > highs[key] else 'begins'} at {found[key]}"
        for key, place in sorted(given.items())
        if found[key] != place
    ]
    if lost and not skip_lost:
        raise RecordsGone(
            f"{FORMAT}: option {option} has {' and '.join(lost)}; give offsets that exist, or {TO_SKIP}, which reads what is there"
        )
    return found


def _is_given(wanted: Offsets, key: TopicPartition) -> bool:
    """True if a user has given an offset of the partition by its number."""
    return not isinstance(wanted, str) and wanted[key] not in (EARLIEST, LATEST)
