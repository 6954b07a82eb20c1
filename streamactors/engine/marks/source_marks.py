"""The marks of a replayable source: one after each chunk, one at each requested position, and EndOfInput at its own end."""

from __future__ import annotations

from streamactors.engine.marks.marks import EndOfInput, Key, Mark, PositionMark, next_epoch


class SourceMarks:
    """The marks of one source in one run. Made only when a stage of the run reads marks."""

    __slots__ = ("_epoch", "_forced", "_next", "key")

    def __init__(self, key: Key, forced: tuple[int, ...] = ()) -> None:
        self.key = key
        self._epoch = next_epoch()
        self._forced = forced
        self._next = 0

    def also_at(self, positions: tuple[int, ...]) -> None:
        """Put marks at these positions too; call it before the first element."""
        self._forced = tuple(sorted({*self._forced, *positions}))

    def clip(self, position: int, n: int) -> int:
        """Return how many of n elements from `position` fit into one chunk without passing the next requested position."""
        forced = self._forced
        while self._next < len(forced) and forced[self._next] <= position:
            self._next += 1
        if self._next < len(forced):
            return min(n, forced[self._next] - position)
        return n

    def at(self, position: int) -> PositionMark:
        """Return the mark that stands before the element at `position`."""
        return {self.key: (self._epoch, position)}

    def at_end(self, position: int) -> list[Mark]:
        """Return the marks after the last element."""
        return [self.at(position), EndOfInput(self.key)]
