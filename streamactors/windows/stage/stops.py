"""Stops: when a windowed stage writes the entries of its state, and which marks pass. Pure; part of the stage's state machine.

When the stage is asked to stop (each commit interval), it stops at the next mark (`engine/marks/part_state.py`): the entries of everything that
changed since the last stop are written. Unlike a sink, the stage does not hold its input meanwhile: rows may change the state, and the next stop
writes their entries. Which marks pass is up to the changelog (`MarksPass`):

* In a transaction the mark of a stop passes at once, because the sinks downstream must reach the mark before everything is committed
  together. Other marks do not pass: windows downstream stop at the same marks.
* Without a transaction every mark passes where the source counts what is processed. The entries are written when the sinks have done the mark of
  the stop, and the mark counts as done when the entries are acknowledged. So after a crash the state is never ahead of the results, nor the
  positions ahead of the state. The stage may wait until the sinks reach any mark, so windows further down, which stop at times of their own, must
  not hold it.
* Where offsets are committed by hand, the mark of a stop waits for the entries, and other marks do not pass.

Results that stem from no row (silence has closed their windows, or the wall clock has called a processor) are emitted after positions that the sinks
may have done. So a mark that passes at once has an entry of the stage's own, which the sinks report like a position.

When the input has ended, the last mark passes although an earlier stop waits: a stage further down may keep elements until its input ends, and the
stop may wait for their results."""

from __future__ import annotations

import enum
from typing import Any

from streamactors.engine.marks.marks import PositionMark, TimerResults
from streamactors.engine.marks.part_state import PartPhase, PartState
from streamactors.windows.stage.stage_effects import Answer, Effect, Hurry, LookUp, PutMark, Write
from streamactors.windows.state.changelogs import MarksPass


class Changed(enum.Enum):
    """What has happened since the last stop."""

    NOTHING = "the state is as the last stop wrote it"
    STATE = "rows or processors may have changed the state"
    RESULTS = "so may they; and results that stem from no row were emitted, with no mark after them"


class Stops:
    """The stops of one stage. `part_state`: its side of the cuts. `finished`: the last entries are written, or part of a transaction."""

    def __init__(self, carried: frozenset[Any]) -> None:
        self.part_state = PartState(carried)
        self.marks_pass = MarksPass.STOPS  # until the changelog is open
        self.finished = False
        self._own: TimerResults | None = None
        self._own_marks = 0
        self._own_is_open = False  # the last of these marks is not committed
        self._changed = Changed.NOTHING
        self._last_mark: PositionMark | None = None  # it has passed at the end, while an earlier stop waits
        self._hurried = False

    def open(self, marks_pass: MarksPass, own: TimerResults | None) -> None:
        """The changelog is open. `own`: the name of the stage's own marks; None if the sinks do not know it."""
        self.marks_pass, self._own = marks_pass, own

    @property
    def gives_nothing_more(self) -> bool:
        """True when the input has ended, and the last mark has passed after the last results."""
        return self.part_state.ended and self.marks_pass is not MarksPass.WRITTEN

    # ── what changes the state ────────────────────────────────────────────────────────────────────────────────────

    def took(self) -> None:
        """Rows were taken: the state is between two marks."""
        self.touched()
        self.part_state.took()

    def touched(self) -> None:
        """The state may have changed without a row."""
        if self._changed is Changed.NOTHING:
            self._changed = Changed.STATE

    def gave(self) -> None:
        """Results that stem from no row were emitted: no position says when the sinks have done them."""
        self._changed = Changed.RESULTS

    def pressed(self) -> list[Effect]:
        """The changes fill the memory of a task: ask for the next cut at once. Once per stop."""
        if self._hurried:
            return []
        self._hurried = True
        return [Hurry()]

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def position(self, mark: PositionMark) -> list[Effect]:
        """Everything before a position is in the state, and nothing after it."""
        self.part_state.mark(mark)
        effects = self.try_to_stop()
        if not effects and self.marks_pass is MarksPass.EVERY:
            return [PutMark(mark)]
        return effects

    def complete(self) -> list[Effect]:
        """The input has ended, and its last results are in the queue: write the rest, once the entries before are committed."""
        self.part_state.end()
        effects = self.try_to_stop()
        if self.marks_pass is not MarksPass.WRITTEN and not self.part_state.has_given_all:
            self._last_mark = self._marked(self.part_state.at)
            effects.append(PutMark(self._last_mark))
        return effects

    def try_to_stop(self) -> list[Effect]:
        """Stop if the stage was asked and is at a mark for it; else return no effects."""
        if not self.part_state.may_stop:
            return []
        at = self.part_state.stop()
        effects: list[Effect] = []
        if self._last_mark is not None:
            at = self._last_mark
        elif self.marks_pass is not MarksPass.WRITTEN:
            at = self._marked(at)
            effects.append(PutMark(at))  # an empty one too: parts downstream stop at it
        self._changed, self._hurried = Changed.NOTHING, False
        effects.append(Write(at, self.part_state.has_given_all))
        return effects

    def _marked(self, at: PositionMark) -> PositionMark:
        """Return a mark as it passes: with an entry for the results that stem from no row. The sinks may have done every position before them.

        A second stop at a further mark before the commit keeps the entry: the commit has the entries of both stops."""
        if self._changed is Changed.RESULTS:
            self._changed = Changed.STATE
            if self._own is not None:
                self._own_marks += 1
                self._own_is_open = True
        return at | {(self._own, 0): (1, self._own_marks)} if self._own_is_open else at.copy()

    # ── the changelog's answers ───────────────────────────────────────────────────────────────────────────────────

    def handed_over(self) -> None:
        """The last entries are part of the open transaction."""
        self.finished = self.part_state.has_given_all

    def committed(self) -> list[Effect]:
        """The entries of the last stop are committed."""
        if not self.part_state.committed():
            return []
        self._own_is_open = False
        effects: list[Effect] = [Answer()]
        if self.marks_pass is MarksPass.WRITTEN:
            effects.append(PutMark(self.part_state.stopped_at))
        self.finished = self.part_state.phase is PartPhase.OVER
        return effects + self.try_to_stop()

    def read(self) -> list[Effect]:
        """A reader asks for a committed state: the one that is there, if nothing has changed since it was committed. Else the next stop serves it."""
        flowing = self.part_state.phase in (PartPhase.FLOWING, PartPhase.OVER)
        return [LookUp(), Answer()] if flowing and self._changed is Changed.NOTHING else []
