"""Logs with the policy compact, written, cleaned and read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

MakeLog = Callable[..., PartitionLog]
DAY_MS = 86_400_000


def put(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], **options: Any) -> int:
    timestamp = options.pop("timestamp", NOW_MS)
    batch = build_batch([NewRecord(key, value, timestamp) for key, value in pairs], **options)
    result = log.append_as_leader(memoryview(batch), 0, NOW_MS)
    log.advance_high_watermark(log.hw_limit)
    return result.base_offset


def batches(log: PartitionLog) -> list[RecordBatch]:
    found = list(log.reader.replay(log.log_start_offset, log.end_offset))
    for batch in found:
        batch.ensure_valid()
    return found


def records(log: PartitionLog) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for batch in batches(log)
        if not batch.is_control
        for record in batch.records()
    ]


def clean(log: PartitionLog, now_ms: int = NOW_MS, **options: Any) -> bool:
    cleaner = Cleaner(lambda: [log], None, **options)
    return cleaner.clean(log, now_ms)
