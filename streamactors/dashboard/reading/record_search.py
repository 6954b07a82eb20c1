"""Search in a topic by key, value and time: records of the range are read once, and hits come as they are found.

`search` reads with librdkafka, on the thread that asks for the next chunk. It belongs to no group and commits nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from streamactors.dashboard.reading.record_query import MOST_HITS, RecordQuery, as_text
from streamactors.kafka.client.admin import EARLIEST, LATEST, Admin
from streamactors.kafka.client.ranges import RangeReader
from streamactors.kafka.settings import ClientSettings, ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition

MOST_TEXT: Final = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """Hits of a chunk, and the number of records read so far and in all."""

    hits: tuple[dict[str, Any], ...]
    read: int
    total: int


def search(
    properties: Mapping[str, Any], query: RecordQuery, shown: Callable[[bytes], bytes] | None = None
) -> Iterator[Found]:
    """Yield what is found, chunk by chunk, until `limit` hits or the ends that the partitions had at the beginning. `shown` returns what is shown and
    searched instead of a value: a search in hidden values would tell them, question by question.

    Raises TopicNotFound, and the connector's errors."""
    servers = properties["bootstrap.servers"]
    others = {name: value for name, value in properties.items() if name != "bootstrap.servers"}
    with Admin(ClientSettings(servers, properties=others)) as admin:
        keys = admin.partitions_of(query.topic)
        # records after the begin of an open transaction are not readable: the search would wait for its end
        ends = admin.offsets(dict.fromkeys(keys, LATEST), committed=True, unknown_ok=True)
        starts = admin.offsets(dict.fromkeys(keys, EARLIEST), unknown_ok=True)
        if query.from_ms is not None:
            later = admin.offsets(dict.fromkeys(keys, query.from_ms), unknown_ok=True)
            starts = {key: at if at >= 0 else ends[key] for key, at in later.items() if key in ends}
    ranges = {key: (starts[key], ends[key]) for key in keys if key in starts and key in ends}
    total = sum(end - start for start, end in ranges.values())
    left, read = min(query.limit, MOST_HITS), 0
    reader = RangeReader(ConsumerSettings(servers, properties=others), skip_lost=True)
    try:
        for key, (start, end) in ranges.items():
            for chunk in reader.read(key, start, end):
                read += len(chunk)
                hits = [
                    _hit(key, each, value)
                    for each in chunk
                    for value in (_value(each, shown),)
                    if query.matches(each.key(), value, each.timestamp()[1])
                ]
                left -= len(hits)
                yield Found(tuple(hits[: len(hits) + min(0, left)]), read, total)
                if left <= 0:
                    return
    finally:
        reader.close()


def _value(message: Any, shown: Callable[[bytes], bytes] | None) -> bytes | None:
    value: bytes | None = message.value()
    return value if value is None or shown is None else shown(value)


def _hit(key: TopicPartition, message: Any, value: bytes | None) -> dict[str, Any]:
    return {
        "partition": key.partition,
        "offset": message.offset(),
        "timestamp_ms": message.timestamp()[1],
        "key": None if message.key() is None else as_text(message.key())[:MOST_TEXT],
        "value": None if value is None else as_text(value)[:MOST_TEXT],
    }
