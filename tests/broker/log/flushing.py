"""What tests of group commit share: batches of an idempotent producer, and who was answered."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.broker.log.conftest import NOW_MS


def send(log: PartitionLog, sequence: int, *, producer: int = 7) -> AppendResult:
    batch = build_batch(
        [NewRecord(None, b"%d" % sequence, NOW_MS)],
        producer_id=producer,
        producer_epoch=0 if producer >= 0 else -1,
        base_sequence=sequence if producer >= 0 else -1,
    )
    return log.append_as_leader(memoryview(batch), 0, NOW_MS)


class Answers:
    """Who was answered, and with what, in order."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.seen: list[tuple[str, ErrorCode]] = []

    def ask(self, name: str, result: AppendResult) -> None:
        assert result.flush_required
        self.log.flusher.request(result, lambda code: self.seen.append((name, code)))
