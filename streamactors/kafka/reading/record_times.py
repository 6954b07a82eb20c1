"""RecordTimes: the timestamps of the chunks of one partition that are not done, so that lag can be said in seconds.

One entry per chunk, not per record. Where more chunks than MOST are in flight, one entry stands for two of them, then for four, and so on, with the
timestamp of the first: the age is too large by the time between them, and never too small.

The lists hold numbers only. A tuple per chunk would be an object for the garbage collector: a poll makes as many objects as it can without a
collection (`polling.records_at_once`), and the tuples of its chunks would bring one about.

Owner: the offset tracker, under its lock."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import Final, NamedTuple

MOST: Final = 256


class ChunkTime(NamedTuple):
    """A chunk: the offset of its first record, the position after its last one, and the first record's timestamp in ms, None if it has none."""

    first: int
    end: int
    ms: int | None


class RecordTimes:
    """Remembers when the records were made that were handed to a stream, from the first one that is not done."""

    __slots__ = ("_each", "_ends", "_firsts", "_in_last", "_ms")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._ends: list[int] = []
        self._ms: list[int | None] = []
        self._each = 1  # chunks for which an entry stands
        self._in_last = 0  # chunks for which the last entry stands

    def note(self, first: int, end: int, ms: int | None) -> None:
        """Note a chunk. A part of a chunk that is known refines it."""
        firsts, ends = self._firsts, self._ends
        if not firsts or first > firsts[-1]:
            self._in_last += 1
            if firsts and self._in_last <= self._each:
                ends[-1] = max(end, ends[-1])
                return
            self._in_last = 1
            self._insert(len(firsts), first, end, ms)
            return
        at = bisect_left(firsts, first)
        if firsts[at] == first:
            ends[at] = max(end, ends[at])
            self._ms[at] = ms
        elif not at or self._each == 1:
            self._insert(at, first, end, ms)

    def _insert(self, at: int, first: int, end: int, ms: int | None) -> None:
        if at and self._ends[at - 1] > end:
            end = self._ends[at - 1]  # the rest of the larger chunk is after this part
        self._firsts.insert(at, first)
        self._ends.insert(at, end)
        self._ms.insert(at, ms)
        if len(self._firsts) > MOST:
            self._merge()

    def _merge(self) -> None:
        ends = self._ends
        for at in range(0, len(ends) - 1, 2):
            ends[at] = max(ends[at], ends[at + 1])
        del ends[1::2], self._firsts[1::2], self._ms[1::2]
        self._each *= 2

    def done(self, position: int) -> None:
        """Forget the chunks that end before `position`."""
        if self._firsts and (gone := self._first_open(position)):
            del self._firsts[:gone], self._ends[:gone], self._ms[:gone]
            if not self._firsts:
                self._each, self._in_last = 1, 0

    def oldest(self, position: int | None) -> ChunkTime | None:
        """Return the chunk with the first record that is not done, `position` being done; None if everything noted is done."""
        at = 0 if position is None else self._first_open(position)
        return ChunkTime(self._firsts[at], self._ends[at], self._ms[at]) if at < len(self._firsts) else None

    def _first_open(self, position: int) -> int:
        """Return the index of the first chunk that ends after `position`. A chunk ends where a part of it begins that is noted."""
        at = bisect_right(self._firsts, position)
        return at - 1 if at and self._ends[at - 1] > position else at

    def copy(self) -> RecordTimes:
        """Return a copy."""
        copied = RecordTimes()
        copied._firsts, copied._ends, copied._ms = self._firsts[:], self._ends[:], self._ms[:]
        return copied

    def __len__(self) -> int:
        return len(self._firsts)
