"""The log of one simulated partition: batches in memory, with the broker's own rules for producers and transactions.

Owner: `Partition`. All replicas share one log: a follower is a number, how far it has copied. Pure: the time is a parameter."""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerState
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.header import last_sequence
from streamactors.simulation.cluster.partitions.batch import NO_PRODUCER, Batch, Marker, MarkerBatch

_last_offset = attrgetter("last_offset")


class Log:
    """Batches in the order of their offsets."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.start_offset = 0
        self.end_offset = 0
        self.producers = ProducerState()
        self.aborted: list[AbortedTransaction] = []
        self.size = 0

    # --- writing ---

    def append(self, batch: Batch, leader_epoch: int, now_ms: int) -> tuple[int, bool]:
        """Append a batch. Returns its base offset, and False for a batch that is in the log already.

        Raises a Refusal of the broker (InvalidProducerEpoch, OutOfOrderSequence, InvalidTransactionState)."""
        producer_id = batch.producer_id
        if producer_id != NO_PRODUCER:
            last = last_sequence(batch.first_sequence, len(batch.rows) - 1)
            known = self.producers.check(
                producer_id, batch.producer_epoch, batch.first_sequence, last, batch.transactional
            )
            if known is not None:
                return known.first_offset, False
        batch.at(self.end_offset, leader_epoch)
        self._add(batch, now_ms)
        return batch.base_offset, True

    def append_marker(self, marker: Marker, leader_epoch: int, wall_ms: int) -> int:
        """Append the end of a transaction; return its offset. Raises InvalidProducerEpoch, TransactionCoordinatorFenced."""
        self.producers.check_marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch)
        batch = MarkerBatch(marker, wall_ms)
        batch.at(self.end_offset, leader_epoch)
        self._add(batch, wall_ms)
        return batch.base_offset

    def _add(self, batch: Batch, now_ms: int) -> None:
        self.batches.append(batch)
        self.end_offset = batch.last_offset + 1
        self.size += batch.size
        self._learn(batch, now_ms)

    def _learn(self, batch: Batch, now_ms: int) -> None:
        producers = self.producers
        producers.end_offset = batch.last_offset + 1
        if isinstance(batch, MarkerBatch):
            marker = batch.marker
            ended = producers.append_marker(
                marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, marker.committed,
                batch.base_offset, batch.max_timestamp, now_ms,
            )  # fmt: skip
            if ended is not None:
                self.aborted.append(ended)
        elif batch.producer_id != NO_PRODUCER:
            first = batch.first_sequence
            metadata = BatchMetadata(
                first, last_sequence(first, batch.last_offset - batch.base_offset),
                batch.base_offset, batch.last_offset, batch.max_timestamp,
            )  # fmt: skip
            producers.append(batch.producer_id, batch.producer_epoch, metadata, batch.transactional, now_ms)

    def skip_to(self, offset: int) -> None:
        """Let the next batch have this offset. What lies between is a gap, as compaction and the ends of transactions leave; an empty log begins here."""
        self.end_offset = self.producers.end_offset = offset
        if not self.batches:
            self.start_offset = offset

    def truncate(self, offset: int, now_ms: int) -> None:
        """Drop everything from an offset on: the new leader does not have it."""
        if offset >= self.end_offset:
            return
        kept = self.batches[: bisect_left(self.batches, offset, key=_last_offset)]
        self.batches, self.aborted, self.size = [], [], 0
        self.producers, self.end_offset = ProducerState(), offset
        for batch in kept:
            self.batches.append(batch)
            self.size += batch.size
            self._learn(batch, now_ms)

    def trim(self, offset: int) -> None:
        """Move the start of the log; batches that end before it are dropped."""
        self.start_offset = max(self.start_offset, min(offset, self.end_offset))
        gone = bisect_left(self.batches, self.start_offset, key=_last_offset)
        self.size -= sum(batch.size for batch in self.batches[:gone])
        del self.batches[:gone]
        self.aborted = [each for each in self.aborted if each.last_offset >= self.start_offset]

    # --- reading ---

    def read(self, offset: int, upto: int, max_bytes: int) -> list[Batch]:
        """Return the batches from the one with `offset` on that end before `upto`: at least one if there is one."""
        found: list[Batch] = []
        batches = self.batches
        for index in range(bisect_left(batches, offset, key=_last_offset), len(batches)):
            batch = batches[index]
            if batch.last_offset >= upto or (found and max_bytes < batch.size):
                break
            max_bytes -= batch.size
            found.append(batch)
        return found

    def is_aborted(self, batch: Batch) -> bool:
        """Whether a batch is part of a transaction that was aborted."""
        return batch.transactional and any(
            each.producer_id == batch.producer_id and each.first_offset <= batch.base_offset <= each.last_offset
            for each in self.aborted
        )

    def offset_at(self, timestamp: int, upto: int) -> tuple[int, int] | None:
        """Return (offset, timestamp) of the first record before `upto` that is not older; None if there is none."""
        for batch in self.batches:
            if batch.max_timestamp < timestamp or isinstance(batch, MarkerBatch):
                continue
            for offset, row in zip(batch.numbered(), batch.rows, strict=True):
                at = batch.max_timestamp if batch.append_time else row[2]
                if at >= timestamp and self.start_offset <= offset < upto:
                    return offset, at
        return None

    def epoch_end(self, leader_epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the largest epoch that is not above this one."""
        last, end = leader_epoch, self.end_offset
        for batch in reversed(self.batches):
            if batch.leader_epoch <= leader_epoch:
                return batch.leader_epoch, end
            last, end = batch.leader_epoch, batch.base_offset
        return last, end


def check_range(log: Log, offset: int, high_watermark: int) -> None:
    """Raise Refusal with OFFSET_OUT_OF_RANGE for an offset that cannot be fetched."""
    if not log.start_offset <= offset <= high_watermark:
        text = f"offset {offset} is not between {log.start_offset} and {high_watermark}"
        raise Refusal(ErrorCode.OFFSET_OUT_OF_RANGE, text)
