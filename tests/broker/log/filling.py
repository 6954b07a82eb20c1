"""Logs of numbered records, for tests."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS

MakeLog = Callable[..., PartitionLog]


def fill(log: PartitionLog, count: int, *, epoch: int = 1) -> None:
    """One batch per number, each of two records, from a producer that counts."""
    for number in range(count):
        records = [NewRecord(b"k%d" % (number % 3), b"%d" % number * 10, NOW_MS + number) for _ in range(2)]
        codec = Compression.SNAPPY if number % 2 else Compression.NONE
        batch = build_batch(records, producer_id=5, producer_epoch=0, base_sequence=2 * number, compression=codec)
        log.append_as_leader(memoryview(batch), epoch, NOW_MS)
