"""EmittingLogic: the base of flows that may have more results than downstream asked for, or results to emit at the end.

Results without demand wait, and the inlet is held meanwhile: elements, marks and completion after them stay in the connection, so
a mark never passes a result that it covers. A failure drops waiting results, unless the stage has begun to end (`emit_and_end`)."""

from __future__ import annotations

from collections.abc import MutableSequence
from typing import Any, Final

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic
from streamactors.engine.marks.marks import Mark, merge_newer


class WellEnded:
    """The end of a stage that completes."""

    def __repr__(self) -> str:
        return "well"


WELL: Final = WellEnded()
End = WellEnded | BaseException


class EmittingLogic(FlowLogic):
    """Base of logics whose results may wait for demand. Subclasses override `ask` (state the demand) and `on_push`."""

    _waiting: list[Any] | None = None
    _at = 0  # the results before this index of `_waiting` have been pushed
    _end: End | None = None

    def ask(self, asked: int) -> None:
        """Ask upstream, when downstream has a demand of `asked` > 0 results. Default: as many elements as results."""
        self.in_.want(asked)

    def emit(self, results: list[Any]) -> None:
        """Push as many results as there is demand for; the others wait."""
        asked = self.out.asked
        if len(results) <= asked:
            if results:
                self.out.push(results)
            return
        if asked:
            self.out.push(results[:asked])
        self._waiting = results
        self._at = asked
        self.in_.hold()

    def emit_and_end(self, results: list[Any], marks: list[Mark] | None = None, end: End = WELL) -> None:
        """Emit results, then marks, then end the stage."""
        self._end = end
        self._last_marks = marks or []
        self.emit(results)
        if self._waiting is None:
            self._finish_with_end()

    def end_with(self, end: End) -> None:
        """Complete or fail the stage now."""
        if isinstance(end, WellEnded):
            self.complete_stage()
        else:
            self.fail_stage(end)

    def on_pull(self, out: Connection) -> None:
        waiting = self._waiting
        if waiting is not None:
            at = self._at
            self._at = end = at + out.asked
            out.push(waiting[at:end])
            if end < len(waiting):
                return
            self._waiting = None
            if self._end is not None:
                self._finish_with_end()
                return
            self.in_.release()
            self.after_waiting()
        elif self._end is not None:
            return
        asked = out.asked
        if asked:
            self.ask(asked)

    def after_waiting(self) -> None:
        """Called when all waiting results have been pushed."""

    def _finish_with_end(self) -> None:
        end = self._end
        assert end is not None
        for mark in self._last_marks:
            self.out.mark(mark)
        self.end_with(end)

    def snapshot_state(self) -> str:
        return f"{len(self._waiting) - self._at} results wait for demand" if self._waiting is not None else ""


def keep(held: MutableSequence[Any], mark: Mark) -> None:
    """Append a mark to those held after one result; position marks next to each other are merged."""
    if held and isinstance(mark, dict) and isinstance(held[-1], dict):
        merge_newer(held[-1], mark)
    else:
        held.append(mark.copy() if isinstance(mark, dict) else mark)
