"""split_when, split_after: a substream between two cuts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from streamactors.engine.logic import logic_of
from streamactors.stages.substreams.reading import Reading, ReadingInOrder
from streamactors.stages.substreams.substream import Full, Substream
from streamactors.stages.substreams.substreams import Substreams, SubstreamsLogic

MOST_RUNNING: Final = 1_024
"""The most substreams of a split that run at the same time: those whose results have not all left."""


class SplitWhen(Substreams):
    """The stage of `Source.split_when`."""

    after = False


class SplitAfter(SplitWhen):
    """The stage of `Source.split_after`."""

    after = True


@logic_of(SplitWhen)
class _SplitLogic(SubstreamsLogic):
    _current: Substream | None = None
    _number = 0
    _cut: Any = None  # of the element that waits for a substream: (the predicate's answer,)

    def reading(self) -> Reading:
        return ReadingInOrder(self)

    def most(self) -> int:
        return self._slice()

    def _may_take_in(self) -> bool:
        # in halves: the end of a substream makes room for a few elements only
        return super()._may_take_in() and 2 * self._room() >= self.most()

    def sort(self, feed: Iterator[Any]) -> None:
        fn, after, dirty = self.stage.fn, self.stage.after, self._dirty
        current = self._current
        known, self._cut = self._cut, None
        for element in feed:
            if known is None:
                cut = fn(element)
            else:
                (cut,), known = known, None
            if current is None or (cut and not after):
                if current is not None:
                    self._current = None
                    self.end(current)
                if len(self._running) >= MOST_RUNNING:
                    self._cut = (cut,)
                    raise Full
                self._number += 1
                self._current = current = self.open(self._number)
            if not current.closed:
                if not current.fresh:
                    dirty[current] = None
                current.fresh.append(element)
            if cut and after:
                self._current = None
                self.end(current)
                current = None
