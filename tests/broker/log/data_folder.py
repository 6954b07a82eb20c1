"""What tests of the data folder as a whole share: rows in a log, and a crash."""

from __future__ import annotations

from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS


def append(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(memoryview(build_batch([NewRecord(b"k", b"v" * 50, NOW_MS)])), 0, NOW_MS)
    log.advance_high_watermark(log.hw_limit)


def crash(logs: LogManager) -> None:
    """What is left of a process that was killed."""
    logs._open = False
    logs._abandon()
