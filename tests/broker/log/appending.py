"""Append to a log and read values back, for tests."""

from __future__ import annotations

from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS


def append(log: PartitionLog, *values: bytes | None, epoch: int = 0, timestamp: int = NOW_MS, **options: object) -> int:
    batch = build_batch([NewRecord(b"k", value, timestamp) for value in values], **options)  # type: ignore[arg-type]
    result = log.append_as_leader(memoryview(batch), epoch, NOW_MS)
    log.advance_high_watermark(log.hw_limit)
    return result.base_offset


def values(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, up_to: int | None = None) -> list[bytes | None]:
    with log.read(offset, max_bytes, log.high_watermark if up_to is None else up_to) as piece:
        data = piece.read()
        assert len(data) == piece.length
    return [record.value for batch in iter_batches(data) for record in batch.records()]
