"""The batches of idempotent producers that were refused temporarily: a later batch must not be appended before them.

Owner: the node, on the data plane's thread. Pure: no clock, no log. A producer sends up to five batches of a partition without waiting. The
leader refuses batch 1 with a retriable error, because the leader changes or too few replicas are in sync. Batch 2 arrives before batch 1 is
retried. The leader answers it with the error of batch 1, and the producer sends both again in order. Apache Kafka answers
OUT_OF_ORDER_SEQUENCE_NUMBER, or appends batch 2 if the log does not know the producer (4.4.0 does so, too). After the error librdkafka begins a new
epoch in all partitions, and sends unacknowledged batches of other partitions again: their records are there twice. After the append librdkafka
counts batch 1 as written: it is lost.

A new leader does not know what the former leader refused. So a leader of several replicas treats each gap as such a refusal while its leadership is
younger than REMEMBERED_MS."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.records.header import HEADER_SIZE, MAX_SEQUENCE

_PRODUCER: Final = struct.Struct(">qhi")
_PRODUCER_AT: Final = 43  # position of producer id, epoch and first sequence number in a batch

MOMENTARY: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Errors of batches that were not written and that their producers send again, in order."""

REMEMBERED_MS: Final = 10_000
"""A producer retries a refused batch after its back-off, which is at most one second by default. After this time a gap is an error."""

REMEMBERED_BATCHES: Final = 10_000
"""The oldest refused batches beyond this number are forgotten."""


class EarlierBatchRefused(BrokerError):
    """A batch of an idempotent producer arrived before an earlier batch that the former leader may have refused."""

    code = ErrorCode.NOT_LEADER_OR_FOLLOWER


class ProducerBatch(NamedTuple):
    """The producer of a batch, and the batch's first sequence number."""

    producer_id: int
    epoch: int
    first_sequence: int


def batch_of(records: memoryview) -> ProducerBatch | None:
    """Return the batch in the records; None if it has no producer id or is not a batch."""
    if len(records) < HEADER_SIZE:
        return None
    batch = ProducerBatch(*_PRODUCER.unpack_from(records, _PRODUCER_AT))
    return batch if batch.producer_id >= 0 and batch.first_sequence >= 0 else None


def may_follow_refused(records: memoryview, next_sequence: Callable[[int, int], int | None]) -> bool:
    """Return whether the former leader may have refused an earlier batch of this producer: the log lacks the sequence numbers before this batch.

    `next_sequence` returns the first sequence number that the log lacks of a producer with an epoch, None if it does not know the producer."""
    batch = batch_of(records)
    if batch is None:
        return False
    expected = next_sequence(batch.producer_id, batch.epoch)
    return batch.first_sequence > 0 if expected is None else _comes_after(batch.first_sequence, expected)


Place = tuple[str | bytes, int]
"""(topic, partition): the name or the id of the topic, as the producer gives it."""


class _Refused(NamedTuple):
    """The earliest batch of a producer that was refused."""

    epoch: int
    first_sequence: int
    code: ErrorCode
    at_ms: float


class RefusedBatches:
    """The earliest refused batch of each producer and partition. False while there is none."""

    __slots__ = ("_refused",)

    def __init__(self) -> None:
        self._refused: dict[tuple[Place, int], _Refused] = {}  # in the order of their times

    def __bool__(self) -> bool:
        return bool(self._refused)

    def note(self, place: Place, batch: ProducerBatch, code: ErrorCode, now_ms: float) -> None:
        """Remember a batch that was refused with a momentary error, unless an earlier one of the producer is remembered."""
        self._expire(now_ms)
        key = (place, batch.producer_id)
        known = self._refused.get(key)
        if known is not None and (
            batch.epoch < known.epoch
            or (batch.epoch == known.epoch and _comes_after(batch.first_sequence, known.first_sequence))
        ):
            return
        self._refused.pop(key, None)
        while len(self._refused) >= REMEMBERED_BATCHES:
            del self._refused[next(iter(self._refused))]
        self._refused[key] = _Refused(batch.epoch, batch.first_sequence, code, now_ms)

    def error_of_earlier(
        self, place: Place, batch: ProducerBatch, next_sequence: int | None, now_ms: float
    ) -> ErrorCode | None:
        """Return the error of a refused batch that must come before this one, None if the log may judge this one.

        `next_sequence` is the first one that the log lacks, None if it does not know the producer."""
        self._expire(now_ms)
        known = self._refused.get((place, batch.producer_id))
        if known is None or known.epoch != batch.epoch or not _comes_after(batch.first_sequence, known.first_sequence):
            return None
        if next_sequence is not None and (
            not _comes_after(batch.first_sequence, next_sequence) or _comes_after(known.first_sequence, next_sequence)
        ):
            return None
        return known.code

    def forget(self, place: Place, producer_id: int) -> None:
        """Forget the producer's refused batch, because the log has taken one of its batches."""
        self._refused.pop((place, producer_id), None)

    def _expire(self, now_ms: float) -> None:
        while self._refused:
            oldest = next(iter(self._refused))
            if now_ms - self._refused[oldest].at_ms < REMEMBERED_MS:
                return
            del self._refused[oldest]


def _comes_after(sequence: int, other: int) -> bool:
    """Whether a sequence number comes after the other one. They wrap from 2^31 - 1 to 0."""
    return 0 < (sequence - other) & MAX_SEQUENCE <= MAX_SEQUENCE >> 1
