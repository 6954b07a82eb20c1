"""JointInput: the rows of several partitions that one task reads, in time order, range by range.

The row with the smallest timestamp at the head of a partition is first, as in `windows/stage/head_time.py`. A range ends somewhere in each
partition, so the task stops where a partition has no row left and more may follow in the next range. The rows after that place are read
again by the next range. The state of the task says how far each partition was taken.

Of rows with equal timestamps, the row of the topic that is first by name goes first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from streamactors.codec import dumps, loads
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.spark.executors.states import Entries
from streamactors.windows.errors import InvalidRecord
from streamactors.windows.state.store_log import Change

ORDER: Final = ""
"""The store of the places that the partitions were taken to. No store of a window has this name."""
TAKEN: Final = b"taken"

Stepped = Callable[[TopicPartition, int, int], Iterator[list[Any]]]
"""From a partition, a position and an end to the rows between, in chunks."""


class PartitionRange(NamedTuple):
    """The range of one partition. `done`: no row after `end` is waited for, because the broker had none when the batch was planned."""

    key: TopicPartition
    start: int
    end: int
    done: bool


class JointInput:
    """The rows of one task in time order. Iterate it once; then `changes` says how far the partitions were taken."""

    def __init__(self, parts: Sequence[PartitionRange], entries: Entries, stepped: Stepped) -> None:
        told = entries.get((ORDER, TAKEN))
        taken = [(part.start, 0) for part in parts] if told is None else loads(told)
        self._heads = [_Head(part, offset, rows, stepped) for part, (offset, rows) in zip(parts, taken, strict=True)]

    def __iter__(self) -> Iterator[list[Any]]:
        """Yield the rows that need not wait for a later range, in chunks."""
        heads = self._heads
        while True:
            ready = []
            for at, head in enumerate(heads):
                if head.fill():
                    ready.append((head.rows[0].timestamp, at))
                elif not head.part.done:  # the next row of this partition may be the oldest
                    for each in heads:
                        each.read_all()  # what the steps divert is given out by the range that reads it first
                    return
            if not ready:
                return
            ready.sort()
            first = ready[0][1]
            yield heads[first].take(first, ready[1] if len(ready) > 1 else None)

    def changes(self) -> list[Change]:
        """Return the change of the task's state."""
        return [Change(ORDER, TAKEN, dumps([[*head.place] for head in self._heads]))]


class _Head:
    """The rows of one partition that were read and not taken. `place`: the offset before which all is taken, and how many rows
    of the record at that offset."""

    def __init__(self, part: PartitionRange, offset: int, rows_taken: int, stepped: Stepped) -> None:
        self.part = part
        self._last = (offset, rows_taken)  # the last record of which rows were taken, and the number of these rows
        self.rows: deque[Any] = deque()
        for rows in stepped(part.key, offset, part.start):  # held by the range before
            self.rows.extend(_checked(rows))
        for _ in range(rows_taken):
            if self.rows and self.rows[0].context.offset == offset:  # with skip_lost the record itself may be gone
                self.rows.popleft()
        self._chunks = stepped(part.key, part.start, part.end)

    def fill(self) -> bool:
        """Read on if no row is there; return whether one is."""
        while not self.rows:
            rows = next(self._chunks, None)
            if rows is None:
                return False
            self.rows.extend(_checked(rows))
        return True

    def read_all(self) -> None:
        """Read the rest of the range."""
        for rows in self._chunks:
            self.rows.extend(_checked(rows))

    def take(self, at: int, following: tuple[int, int] | None) -> list[Any]:
        """Take the rows up to the head of another partition, `following`: its timestamp and its place among the partitions."""
        rows = self.rows
        taken = []
        while rows and (following is None or (rows[0].timestamp, at) < following):
            taken.append(rows.popleft())
        offset = taken[-1].context.offset
        n = next((i for i, row in enumerate(reversed(taken)) if row.context.offset != offset), len(taken))
        self._last = (offset, n + (self._last[1] if n == len(taken) and self._last[0] == offset else 0))
        return taken

    @property
    def place(self) -> tuple[int, int]:
        if not self.rows:
            return self.part.end, 0
        offset = self.rows[0].context.offset
        return self._last if self._last[0] == offset else (offset, 0)


def _checked(rows: list[Any]) -> list[Any]:
    for row in rows:
        if getattr(row, "context", None) is None:
            raise InvalidRecord(
                f"{row!r} has no context, so its order among several topics is unknown; keep it with record.replace(value=…) instead of "
                "making a new Record"
            )
    return rows
