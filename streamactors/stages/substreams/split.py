"""split_when, split_after: a substream between two cuts."""

from __future__ import annotations

from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.stages.substreams.substreams import Substream, Substreams, SubstreamsLogic


class SplitWhen(Substreams):
    """Begin a new substream with each element for which `predicate` is true.

    Emits when: a substream has a result.         Backpressures when: the current substream has no demand.
    Completes when: upstream and all substreams complete.   Cancels when: downstream cancels.
    Fails when: a substream fails.                Supervision: resume drops an element for which `predicate` raised.
    Marks: when all that stems from elements before them has left the substreams, if the substreams' flow is a chain of stages that pass
    marks; else they do not pass.
    """

    after = False


class SplitAfter(SplitWhen):
    """End the current substream with each element for which `predicate` is true.

    Emits when: a substream has a result.         Backpressures when: the current substream has no demand.
    Completes when: upstream and all substreams complete.   Cancels when: downstream cancels.
    Fails when: a substream fails.                Supervision: resume drops an element for which `predicate` raised.
    Marks: when all that stems from elements before them has left the substreams, if the substreams' flow is a chain of stages that pass
    marks; else they do not pass.
    """

    after = True


@logic_of(SplitWhen)
class _SplitLogic(SubstreamsLogic):
    _current: Substream | None = None
    _number = 0

    def route(self, element: Any) -> Substream | None:
        cut = self.stage.fn(element)
        current = self._current
        if current is None or (cut and not self.stage.after):
            if current is not None:
                self.end(current)
            self._number += 1
            self._current = current = self.open(self._number)
        if cut and self.stage.after:
            self._current = None
            return self._ending(current)
        return current if current.into in self._of else None

    def _ending(self, sub: Substream) -> Substream | None:
        """Return the substream, which ends behind the element that is about to be pending for it."""
        sub.ending = True
        return sub if sub.into in self._of else None
