"""A log in memory for coordinators under test: it keeps real batches and answers when the test wants it to.

What it has acknowledged survives a crash, what it has not may or may not: `crash` decides by the length it keeps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from streamactors.broker.coordinator.coordinator_log import CoordinatorLog
from streamactors.broker.coordinator.coordinator_messages import Flush
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.header import assign_offset

MAX_BATCH_BYTES = 100_000


class Outcome(NamedTuple):
    error: ErrorCode
    base_offset: int


class MemoryLog:
    def __init__(self, wall_ms: Callable[[], int], *, auto: bool = True) -> None:
        self.tell: Callable[[object], object] = lambda message: None  # what the writer says to its coordinator
        self.wall_ms = wall_ms
        self.auto = auto
        self.batches: list[bytearray] = []
        self.end = 0
        self.acknowledged = 0  # batches
        self.pending: deque[tuple[int, Callable[[Any], object]]] = deque()
        self.flush_wanted = False
        self.fail_next: ErrorCode | None = None
        self.writer = self.new_writer()

    def new_writer(self) -> CoordinatorLog:
        self.writer = CoordinatorLog(self.append, self.wall_ms, MAX_BATCH_BYTES, self.told)
        return self.writer

    def told(self, message: object) -> None:
        if isinstance(message, Flush):
            self.flush_wanted = True
        else:
            self.tell(message)

    def append(self, batch: bytearray, then: Callable[[Any], object]) -> None:
        if self.fail_next is not None:
            error, self.fail_next = self.fail_next, None
            then(Outcome(error, -1))
            return
        if len(batch) > MAX_BATCH_BYTES:
            then(Outcome(ErrorCode.MESSAGE_TOO_LARGE, -1))
            return
        base = self.end
        assign_offset(memoryview(batch), base, 0)
        self.batches.append(batch)
        self.end = RecordBatch(batch).next_offset
        self.pending.append((base, then))
        if self.auto:
            self.acknowledge()

    def acknowledge(self) -> None:
        """The oldest append is below the high watermark now."""
        base, then = self.pending.popleft()
        self.acknowledged += 1
        then(Outcome(ErrorCode.NONE, base))

    def turn(self) -> None:
        """End the actor's turn: what was written is appended."""
        while self.flush_wanted:
            self.flush_wanted = False
            self.writer.flush()

    def crash(self, lost: int = 0) -> None:
        """Forget up to `lost` batches that were not acknowledged, and whoever waited for any."""
        keep = max(len(self.batches) - lost, self.acknowledged)
        del self.batches[keep:]
        self.acknowledged = len(self.batches)
        self.end = RecordBatch(self.batches[-1]).next_offset if self.batches else 0
        self.pending.clear()
        self.flush_wanted = False
        self.new_writer()

    def replay(self) -> Iterator[RecordBatch]:
        return iter([RecordBatch(batch) for batch in self.batches])
