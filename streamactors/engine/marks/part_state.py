"""One part's side of a cut: whether the part must stop at its next mark, and the mark where it is. Pure; the run's side is `cut_state.py`.

    FLOWING ──asked, or a mark where every mark is a cut──► ASKED ──a mark not before the target, nothing after it───► STOPPED
       ▲                                                      ▲                                                         │  │
       │                                                      └── sent on to a further target; or committed, and the ───┘  │
       └── committed ◄────────────────────────────────────────    stream has ended meanwhile     committed, at the end ──► OVER

A part answers each request with one stop. A request without a target that reaches a stopped part was sent before the report of this stop
arrived; the report answers it. When a stream ends while its part is stopped, the next stop reports the end.

Owner: the island of a transactional sink, or of a windowed stage with a changelog."""

from __future__ import annotations

import enum
from typing import Any

from streamactors.engine.marks.marks import NOWHERE, Key, PositionMark, is_behind, merge_newer


class PartPhase(enum.Enum):
    """What the part does."""

    FLOWING = "elements and marks pass"
    ASKED = "the next mark that is not before the target stops it"
    STOPPED = "everything before `stopped_at` is written and reported; it waits for the commit"
    OVER = "its stream has ended, and everything it wrote is committed"


class PartState:
    """The state of one part in the cuts of its run. `carried`: the sources whose marks reach the part; without any there is nothing to stop at, and it stops anywhere."""

    def __init__(self, carried: frozenset[Any]) -> None:
        self.carried = carried
        self.follows = False  # every mark is a cut: another part before it passes no others
        self.phase = PartPhase.FLOWING
        self.at: PositionMark = {}  # everything before it was taken, and nothing after it while `_clean`
        self.stopped_at: PositionMark = {}
        self.ended = False
        self.overtaken: set[Key] = set()
        """Partitions that were lost and assigned again since the last stop. A commit is not allowed: it would have the records of both assignments."""
        self._target: PositionMark = {}
        self._clean = True
        self._last = False  # it stands at the end of its stream

    def ask(self, target: PositionMark) -> None:
        """Stop at the next mark that is not before `target`."""
        if self.phase is PartPhase.OVER or (self.phase is PartPhase.STOPPED and (self._last or not target)):
            return
        self.phase, self._target = PartPhase.ASKED, target

    def took(self) -> None:
        """Elements were taken: the part is between two marks."""
        self._clean = False

    def mark(self, mark: PositionMark) -> None:
        """A position mark has come after what was taken."""
        for key, place in mark.items():
            before = self.at.get(key, NOWHERE)
            if before[0] < place[0] and before > self.stopped_at.get(key, NOWHERE):
                self.overtaken.add(key)
        merge_newer(self.at, mark)
        self._clean = True
        if self.follows and self.phase is PartPhase.FLOWING:
            self.ask({})

    def end(self) -> None:
        """The stream has ended: no element follows those after the last mark."""
        self.ended = self._clean = True
        if self.phase is PartPhase.FLOWING:
            self.ask({})

    @property
    def may_stop(self) -> bool:
        """True when the part was asked, and is at a mark that is not before the target, or at the end of its stream."""
        if self.phase is not PartPhase.ASKED or not (self._clean or not self.carried):
            return False
        return self.ended or not is_behind(self.at, self._target, self.carried)

    def stop(self) -> PositionMark:
        """Stop here; return the mark where the part is. Only when it `may_stop`."""
        assert self.may_stop
        self.phase, self._last, self.stopped_at = PartPhase.STOPPED, self.ended, self.at.copy()
        return self.stopped_at

    @property
    def has_given_all(self) -> bool:
        """True when the last stop was at the end of the stream."""
        return self._last

    def committed(self) -> bool:
        """Everything written up to the stop is committed. Return False if the part was not stopped."""
        if self.phase is not PartPhase.STOPPED:
            return False
        self.phase = PartPhase.OVER if self._last else PartPhase.FLOWING
        if self.ended and not self._last:
            self.ask({})
        return True
