"""A transactional producer of one partition, and what a consumer of committed records reads of it."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.control import build_marker, read_marker
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin
from tests.broker.log.conftest import NOW_MS

MakeLog = Callable[..., PartitionLog]


class Writer:
    """A transactional producer of one partition."""

    def __init__(self, log: PartitionLog, producer_id: int, epoch: int = 0) -> None:
        self.log, self.producer_id, self.epoch, self.sequence = log, producer_id, epoch, 0

    def write(self, *values: bytes, transactional: bool = True) -> int:
        records = [NewRecord(b"k%d" % self.producer_id, value, NOW_MS) for value in values]
        batch = build_batch(
            records,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            transactional=transactional,
        )
        result = self.log.append_as_leader(memoryview(batch), 0, NOW_MS)
        self.sequence += len(values)
        self.log.advance_high_watermark(self.log.hw_limit)
        return result.base_offset

    def end(self, committed: bool, coordinator_epoch: int = 0, replicated: bool = True) -> int:
        marker = build_marker(
            self.producer_id,
            self.epoch,
            committed=committed,
            coordinator_epoch=coordinator_epoch,
            timestamp_ms=NOW_MS,
        )
        result = self.log.append_as_leader(memoryview(marker), 0, NOW_MS, AppendOrigin.COORDINATOR)
        if replicated:
            self.log.advance_high_watermark(self.log.hw_limit)
        return result.base_offset


def committed_values(log: PartitionLog, start: int = 0) -> list[bytes | None]:
    """What a read_committed consumer makes of the log."""
    seen: list[bytes | None] = []
    offset = start
    while offset < log.last_stable_offset:
        with log.read(offset, 400, log.last_stable_offset) as piece:
            aborted = log.reader.aborted_transactions(offset, piece.end_offset)
            data = piece.read()
        pending = sorted(aborted, key=lambda each: each.first_offset)
        active: set[int] = set()
        for batch in iter_batches(data):
            while pending and pending[0].first_offset <= batch.last_offset:
                active.add(pending.pop(0).producer_id)
            offset = batch.next_offset
            if batch.is_control:
                marker = read_marker(batch)
                if marker and not marker.committed:
                    active.discard(batch.producer_id)
                continue
            if batch.is_transactional and batch.producer_id in active:
                continue
            seen += [record.value for record in batch.records()]
    return seen
