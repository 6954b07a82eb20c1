"""Runs: what one poll gave, as records of one partition in a row; and what lies in librdkafka's messages, column by column.

Owner: whoever has read them. Everything here goes over a chunk in C, for a call of Python's per record would cost as much as the record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from streamactors.kafka.client import ck
from streamactors.kafka.record import ConsumerRecord, KeptRecord, wrap
from streamactors.kafka.subscriptions import TopicPartition

RECORD_OVERHEAD = 64
"""Bytes a record costs beside its key and value, for the estimate of a chunk's size."""

_VALUE: Any = ck.Message.value
_FIRST, _SECOND = itemgetter(0), itemgetter(1)


class Run(NamedTuple):
    """Records of one partition in a row, their size in bytes (estimated) and the position behind the last.

    As `read` gives them they are librdkafka's messages, not wrapped yet."""

    key: TopicPartition
    records: list[Any]
    size: int
    end: int


class Batch(NamedTuple):
    """What one poll gave."""

    runs: list[Run]
    ends: list[tuple[TopicPartition, int]]  # partitions with nothing behind this position


NOTHING = Batch([], [])


def wrapped(messages: list[Any]) -> list[ConsumerRecord]:
    """Return the records of librdkafka's messages; records as they are."""
    if type(messages[0]) is KeptRecord:
        return messages
    return wrap(map(_VALUE, messages), messages)


def columns(records: list[Any], counter: Iterator[Any] | None = None) -> tuple[Iterator[Any], Iterator[Any]]:
    """Return the values and the messages of records, wrapped or not, as iterators to be zipped in this order.

    With a `counter`, an iterator over the records, the second is it or is driven by it: its length hint tells how many are left."""
    counter = iter(records) if counter is None else counter
    if type(records[0]) is KeptRecord:
        return map(_FIRST, records), map(_SECOND, counter)
    return map(_VALUE, records), counter


def offset_of(record: Any) -> int:
    """Return the offset of a record, wrapped or one of librdkafka's messages."""
    offset: int = record.offset if type(record) is KeptRecord else record.offset()
    return offset


def offsets_of(messages: Iterable[Any]) -> list[int]:
    """Return the offsets of librdkafka's messages."""
    return list(map(ck.Message.offset, messages))


def runs_of(messages: list[Any]) -> list[Run]:
    """Return the runs that librdkafka's messages are, in their order."""
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


def run_of(key: TopicPartition, messages: list[Any]) -> Run:
    """Return the run of messages that are all of one partition."""
    first, last = messages[0], messages[-1]
    each = (len(first) + len(last)) // 2 + RECORD_OVERHEAD
    return Run(key, messages, each * len(messages), last.offset() + 1)
