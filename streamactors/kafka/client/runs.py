"""What one poll returns: runs of consecutive records of one partition; and the columns of librdkafka's messages.

Owner: the reader of the poll. Every function iterates in C, because one Python call per record would double a record's cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import length_hint
from typing import Any, NamedTuple

from streamactors.kafka.client.connection import ck
from streamactors.kafka.record import ConsumerRecord, wrap
from streamactors.kafka.subscriptions import TopicPartition

RECORD_OVERHEAD = 64
"""Bytes of a record beside its key and value, for the estimate of a run's size."""
_KEY: Any = ck.Message.key
_VALUE: Any = ck.Message.value


class RecordRun(NamedTuple):
    """Consecutive records of one partition, their estimated size in bytes, and the position after the last record.

    `StreamConsumer.read` returns librdkafka's messages in place of records; `poll` wraps them."""

    key: TopicPartition
    records: list[Any]
    size: int
    end: int


class PollResult(NamedTuple):
    """The result of one poll."""

    runs: list[RecordRun]
    ends: list[tuple[TopicPartition, int]]  # the partition ends at this position


NOTHING = PollResult([], [])


def wrapped(messages: list[Any]) -> list[ConsumerRecord]:
    """Return the records of librdkafka's messages."""
    return wrap(map(_VALUE, messages), messages)


def columns(messages: list[Any], counter: Iterator[Any] | None = None) -> tuple[Iterator[Any], Iterator[Any]]:
    """Return the values and the messages of a chunk, as iterators to be zipped in this order.

    The second iterator is `counter`, an iterator over the messages, if there is one: its length hint tells how many are left."""
    return map(_VALUE, messages), iter(messages) if counter is None else counter


def keys_and_values(messages: list[Any]) -> tuple[list[Any], list[Any]]:
    """Return the keys of librdkafka's messages, and their values."""
    return list(map(_KEY, messages)), list(map(_VALUE, messages))


def made_message(
    place: TopicPartition,
    offset: int,
    key: Any,
    value: Any,
    timestamp: int | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
) -> Any:
    """Return a message as librdkafka would deliver it; for tests. `timestamp` in ms since 1970, None: it has none."""
    time = (ck.TIMESTAMP_NOT_AVAILABLE, 0) if timestamp is None else (ck.TIMESTAMP_CREATE_TIME, timestamp)
    return ck.Message(*place, offset, key, value, list(headers) or None, timestamp=time)


def made_at_ms(message: Any) -> int | None:
    """Return the timestamp of one of librdkafka's messages in ms since 1970, None if it has none."""
    kind, ms = message.timestamp()
    return ms if kind else None


def has_append_time(message: Any) -> bool:
    """Return whether the timestamp of one of librdkafka's messages is the broker's time of the append, not the producer's time."""
    return bool(message.timestamp()[0] == ck.TIMESTAMP_LOG_APPEND_TIME)


def offsets_of(messages: Iterable[Any]) -> list[int]:
    """Return the offsets of librdkafka's messages."""
    return list(map(ck.Message.offset, messages))


_HEADERS: Any = ck.Message.headers


def with_headers(messages: list[Any]) -> Iterator[tuple[int, list[tuple[str, Any]]]]:
    """Return number and headers of each message that has some. One without costs no Python call."""
    rest = iter(messages)
    while any(map(_HEADERS, rest)):
        at = len(messages) - length_hint(rest) - 1
        yield at, messages[at].headers()


def runs_of(messages: list[Any]) -> list[RecordRun]:
    """Split the messages of one poll into runs, in order."""
    partitions = list(map(ck.Message.partition, messages))
    topics = list(map(ck.Message.topic, messages))
    if partitions.count(partitions[0]) == len(partitions) and topics.count(topics[0]) == len(topics):
        return [run_of(TopicPartition(topics[0], partitions[0]), messages)]
    runs = []
    position = 0
    for (topic, partition), group in groupby(zip(topics, partitions, strict=True)):
        n = sum(1 for _ in group)
        runs.append(run_of(TopicPartition(topic, partition), messages[position : position + n]))
        position += n
    return runs


def run_of(key: TopicPartition, messages: list[Any]) -> RecordRun:
    """Return the run of messages of one partition."""
    first, last = messages[0], messages[-1]
    each = (len(first) + len(last)) // 2 + RECORD_OVERHEAD
    return RecordRun(key, messages, each * len(messages), last.offset() + 1)
