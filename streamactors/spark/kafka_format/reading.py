"""The reading side of `streamactors-kafka`: which ranges a batch has, and the rows of a range.

Streams are planned by the planner of graphs on executors, so they notice deleted records, new partitions, and a checkpoint of another topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from streamactors.collector import collecting_seldom
from streamactors.errors import BuildError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.errors import TopicNotFound
from streamactors.kafka.reading.assignment.start_positions import StartPositions
from streamactors.kafka.reading.record_batches import record_batch
from streamactors.kafka.subscriptions import Subscription, Subscriptions, TopicPartition
from streamactors.spark.executors.offsets import name_of
from streamactors.spark.executors.planner import Planner, Plans
from streamactors.spark.executors.ranges import cut
from streamactors.spark.format_options import TO_SKIP
from streamactors.spark.kafka_format.bounds import FORMAT
from streamactors.spark.kafka_format.options import ReadOptions, read_options, stream_options
from streamactors.spark.kafka_format.places import is_given, offsets_at, partitions_of
from streamactors.spark.query.source_identity import SourceIdentity
from streamactors.spark.sink.batch_size import MAX_ROWS, TARGET_BATCH_S

_log = logging.getLogger("streamactors.spark")

Slice = tuple[str, int, int, int]
"""What a task reads: topic, partition, first offset, offset after the last."""

ROWS: Final = 4_000
"""Rows of a record batch: with fewer, Spark's work for each batch shows. librdkafka holds a few megabytes, so large records make small batches."""

KEPT: Final = 4
"""Planners and connections that a process keeps; a query needs one of each."""


def batch_ranges(options: Mapping[str, str]) -> list[Slice]:
    """Return the tasks of a plain read. Raises BuildError, TopicNotFound."""
    what = read_options(options)
    with Admin(what.settings) as client:
        keys = partitions_of(client, what)
        if not keys:
            raise TopicNotFound(f"no topic matches {what.pattern} at {what.settings.bootstrap_servers}")
        starts = offsets_at(client, keys, what.starting or "earliest", "startingOffsets", skip_lost=what.skip_lost)
        ends = offsets_at(client, keys, what.ending, "endingOffsets", skip_lost=what.skip_lost)
    for key in keys:
        if starts[key] > ends[key] and is_given(what.ending, key):
            raise BuildError(
                f"{FORMAT}: the read of {key} would end at {ends[key]} ({_option(what.ending, 'endingOffsets')}), before it begins at "
                f"{starts[key]} ({_option(what.starting, 'startingOffsets')})"
            )
    keys = [key for key in keys if starts[key] < ends[key]]
    pieces = cut([(starts[key], ends[key]) for key in keys], what.tasks or 1)
    return [(*key, first, last) for key, spans in zip(keys, pieces, strict=True) for first, last in spans]


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

    def begin() -> dict[str, int]:
        with Admin(what.settings) as client:
            keys = partitions_of(client, what)
            places = offsets_at(client, keys, what.starting or "latest", "startingOffsets", skip_lost=what.skip_lost)
            return _named(places)

    with Admin(what.settings) as client:
        keys = partitions_of(client, what)
    if not keys:
        _log.warning("no topic matches %s at %s yet", what.pattern, what.settings.bootstrap_servers)
    return Planner(
        Plans(
            settings=what.settings,
            subscription=_subscription(what),
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
            pattern=what.pattern,
            tasks=what.tasks,
            source=_identity(what, sorted({key.topic for key in keys})),
        ),
        begin,
    )


@lru_cache(KEPT)
def _reader(options: str) -> RangeReader:
    what = read_options(json.loads(options))
    return RangeReader(what.settings, skip_lost=what.skip_lost, to_skip=TO_SKIP)


def _subscription(what: ReadOptions) -> Subscription:
    if what.pattern:
        return Subscriptions.topic_pattern(what.pattern)
    return Subscriptions.topics(*what.topics) if what.topics else Subscriptions.assignment(*what.partitions)


def _identity(what: ReadOptions, topics: list[str]) -> SourceIdentity:
    """Return what the checkpoint keeps of the source. `topics`: those that are read now."""
    label = StartPositions(what.settings, _subscription(what), False, lambda _: None).label
    with Admin(what.settings) as client:
        ids = client.topic_ids(topics)
        found = {"cluster id": client.cluster_id(), **{f"id of topic {name}": ids[name] for name in topics}}
    return SourceIdentity(label, found)


def _named(found: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {name_of(key): place for key, place in found.items()}


def _option(bound: Any, otherwise: str) -> str:
    """Return the name of the option that a bound came from."""
    return getattr(bound, "option", otherwise)
