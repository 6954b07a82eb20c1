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
from streamactors.kafka.errors import TopicNotFound
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.kafka.reading.record_batches import record_batch
from streamactors.kafka.subscriptions import Subscription, Subscriptions, TopicPartition
from streamactors.spark.executors.offsets import name_of
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.kafka_format.options import EARLIEST, FORMAT, LATEST, Offsets, ReadOptions, read_options
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
        starts = _places(client, keys, what.starting or "earliest", "startingOffsets")
        ends = _places(client, keys, what.ending, "endingOffsets")
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
    what = read_options(json.loads(options))
    of: Subscription = Subscriptions.topics(*what.topics) if what.topics else Subscriptions.assignment(*what.partitions)

    def begin() -> dict[str, int]:
        with Admin(what.settings) as client:
            keys = _partitions(client, what)
            return _named(_places(client, keys, what.starting or "latest", "startingOffsets"))

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
            topics=what.topics,
            source=SourceIdentity(where.label, where.identity()),
        ),
        begin,
    )


@lru_cache(KEPT)
def _reader(options: str) -> RangeReader:
    what = read_options(json.loads(options))
    return RangeReader(what.settings, skip_lost=what.skip_lost)


def _partitions(client: Admin, what: ReadOptions) -> list[TopicPartition]:
    if what.partitions:
        return list(what.partitions)
    there = {topic.name: topic.partitions for topic in client.topics()}
    for topic in what.topics:
        if topic not in there:
            raise TopicNotFound(
                f"no topic {topic} at {what.settings.bootstrap_servers}; create it with: streamactors topics create {topic}"
            )
    return [TopicPartition(topic, number) for topic in sorted(what.topics) for number in range(there[topic])]


def _named(found: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {name_of(key): place for key, place in found.items()}


def _places(client: Admin, keys: list[TopicPartition], wanted: Offsets, option: str) -> dict[TopicPartition, int]:
    """Return an offset for each partition."""
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
    return {key: asked.get(key, place) for key, place in wanted.items()}
