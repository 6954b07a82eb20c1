"""The cut of a run: the moves from one commit to the next. Pure: no clock, no thread, no producer.

A commit covers everything that stems from before one mark, and nothing after it. So every part of the run that writes into the commit (a
transactional sink, a windowed stage with a changelog) stops at its next mark; parts that stopped at an earlier mark than another part are
sent on to the furthest. When the other sinks of the run have done that mark too, its positions are committed.

    WRITING ──ask──► ASKED ──every part is at one mark──► SETTLING ──the other sinks have done it──► COMMITTING ──► OVER
       ▲               ▲                                                                                  │  │
       │               └──── committed, and another cut was asked for meanwhile ──────────────────────────┘  │
       └──────────────────── committed ──────────────────────────────────────────────────────────────────────┘
    every phase but OVER ──a failure──► ABORTED

Owner: the component that commits. `part_state.py` is the parts' side of a cut. The methods return effects; the owner carries them out in
their order."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from streamactors.engine.marks.marks import PositionMark, is_behind, merge_newer
from streamactors.engine.marks.part_state import PartState


class CutPhase(enum.Enum):
    """What the run does."""

    WRITING = "the parts write on"
    ASKED = "the parts were asked to stop at one mark"
    SETTLING = "every part has stopped at the mark; the other sinks may be behind it"
    COMMITTING = "the positions of the mark are being committed"
    OVER = "every part has ended, and everything is committed"
    ABORTED = "a failure: everything that was not committed is dropped"


MOVES: Final[Mapping[CutPhase, frozenset[CutPhase]]] = {
    CutPhase.WRITING: frozenset({CutPhase.ASKED, CutPhase.ABORTED}),
    CutPhase.ASKED: frozenset({CutPhase.SETTLING, CutPhase.ABORTED}),
    CutPhase.SETTLING: frozenset({CutPhase.COMMITTING, CutPhase.ABORTED}),
    CutPhase.COMMITTING: frozenset({CutPhase.WRITING, CutPhase.ASKED, CutPhase.OVER, CutPhase.ABORTED}),
    CutPhase.OVER: frozenset(),
    CutPhase.ABORTED: frozenset(),
}


class CutPart(Protocol):
    """A part of the run that writes into the commit. The methods may be called from any thread."""

    part_state: PartState
    """The part's side of the cut; CutState reads only `carried` and `follows`."""

    def cut(self, target: PositionMark) -> None:
        """Stop at the next mark that is not before `target`: write everything before it, and nothing after it until `committed`."""

    def committed(self) -> None:
        """Everything written up to the mark where the part has stopped is committed; continue to write."""

    def failed(self, error: BaseException) -> None:
        """The run has failed; nothing more is committed."""

    def sinks_behind(self) -> set[object]:
        """Return the sinks that see a mark only when it is committed; the cut cannot wait for them."""


class ReportedPhase(enum.Enum):
    """The phase of a part, according to the last message received from it."""

    FLOWING = "it writes"
    ASKED = "it was asked to stop"
    STOPPED = "it has written everything before its mark, and nothing after it"
    ENDED = "as STOPPED, and its stream has ended"
    SETTLED = "its stream has ended, and everything it has written is committed"


@dataclass(frozen=True, slots=True)
class Stop:
    """Effect: ask a part to stop at its next mark that is not before `target`."""

    part: CutPart
    target: PositionMark


@dataclass(frozen=True, slots=True)
class Settle:
    """Effect: call `settled` when no other sink of the run is behind `target`."""

    target: PositionMark


@dataclass(frozen=True, slots=True)
class Release:
    """Effect: call `committed` of a part."""

    part: CutPart


Effect: TypeAlias = Stop | Settle | Release


@dataclass(slots=True)
class _Reported:
    """The state of a part. `left`: its stage has stopped, so no message reaches it."""

    phase: ReportedPhase = ReportedPhase.FLOWING
    at: PositionMark = field(default_factory=dict)
    left: bool = False

    @property
    def has_stopped(self) -> bool:
        return self.phase not in (ReportedPhase.FLOWING, ReportedPhase.ASKED)


class CutState:
    """The state of a run's cuts. `committed_at`: the positions that are committed."""

    def __init__(self) -> None:
        self.phase = CutPhase.WRITING
        self.target: PositionMark = {}  # of the commit in progress
        self.committed_at: PositionMark = {}
        self._parts: dict[CutPart, _Reported] = {}
        self._again = False  # another cut was asked for during this one

    def add(self, part: CutPart) -> None:
        """Add a part that writes into the commits. Call it before the first cut."""
        self._parts[part] = _Reported()

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """True when no further commit will follow: everything is committed, or the run was aborted."""
        return self.phase in (CutPhase.OVER, CutPhase.ABORTED)

    @property
    def parts(self) -> list[CutPart]:
        """The parts, in the order they were added."""
        return list(self._parts)

    @property
    def ended(self) -> list[CutPart]:
        """The parts whose stream has ended."""
        return [
            part for part, known in self._parts.items() if known.phase in (ReportedPhase.ENDED, ReportedPhase.SETTLED)
        ]

    @property
    def met(self) -> PositionMark | None:
        """The furthest of the marks where the parts are; None while a part has not stopped."""
        if not all(known.has_stopped for known in self._parts.values()):
            return None
        furthest: PositionMark = {}
        for known in self._parts.values():
            merge_newer(furthest, known.at)
        return furthest

    @property
    def all_left(self) -> bool:
        """True when the stages of all parts have stopped."""
        return all(known.left for known in self._parts.values())

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, *, urgent: bool = False) -> list[Effect]:
        """Begin a cut. `urgent`: if a cut is in progress, another follows it at once, because records may lie after the first."""
        if self.phase is CutPhase.WRITING:
            return self._ask()
        self._again = self._again or urgent
        return []

    def reached(self, part: CutPart, at: PositionMark, *, ended: bool) -> list[Effect]:
        """A part has stopped at a mark; `ended`: its stream has ended. A cut begins if none was asked for."""
        known = self._parts[part]
        if self.is_over:
            return []
        known.at, known.phase = at, ReportedPhase.ENDED if ended else ReportedPhase.STOPPED
        effects = self._ask() if self.phase is CutPhase.WRITING else []
        target = self.met
        if target is None or self.phase is not CutPhase.ASKED:
            return effects
        late = [
            part
            for part, known in self._parts.items()
            if known.phase is ReportedPhase.STOPPED and is_behind(known.at, target, part.part_state.carried)
        ]
        if late:
            return [self._stop(part, target) for part in late]
        self._move(CutPhase.SETTLING)
        self.target = target
        return [Settle(target)]

    def settled(self) -> bool:
        """No other sink of the run is behind the target. Return whether the owner must commit it now: True unless the run has failed."""
        if self.phase is not CutPhase.SETTLING:
            return False
        self._move(CutPhase.COMMITTING)
        return True

    def committed(self) -> list[Effect]:
        """The target is committed: release the parts."""
        merge_newer(self.committed_at, self.target)
        released = [part for part, known in self._parts.items() if known.phase is not ReportedPhase.SETTLED]
        for part in released:
            known = self._parts[part]
            known.phase = ReportedPhase.SETTLED if known.phase is ReportedPhase.ENDED else ReportedPhase.FLOWING
        effects: list[Effect] = [Release(part) for part in released]
        if all(known.phase is ReportedPhase.SETTLED for known in self._parts.values()):
            self._move(CutPhase.OVER)
        elif self._again:
            self._again = False
            effects += self._ask()
        else:
            self._move(CutPhase.WRITING)
        return effects

    def left(self, part: CutPart, *, finished: bool) -> bool:
        """A part's stage has stopped. Return whether the run must abort: it must not when everything the part has written is committed,
        or when the part `finished` (it has handed over its last entries and need not wait for the commit)."""
        known = self._parts.setdefault(part, _Reported())
        known.left = True
        return not (finished or self.is_over or known.phase is ReportedPhase.SETTLED)

    def abort(self) -> list[CutPart]:
        """The run has failed. Return the parts to notify; none when the cut was over before."""
        if self.is_over:
            return []
        self._move(CutPhase.ABORTED)
        return [part for part, known in self._parts.items() if not known.left]

    # ── inside ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, to: CutPhase) -> None:
        assert to in MOVES[self.phase], f"{self.phase.name} -> {to.name}"
        self.phase = to

    def _ask(self) -> list[Effect]:
        """Ask every part to stop that does not follow another part.

        A part that follows gets marks only from cuts. Results, a mark, results -> it stops at the mark -> the next mark comes only
        after the commit, and the commit would wait for the results after the first mark."""
        self._move(CutPhase.ASKED)
        return [
            self._stop(part, {})
            for part, known in self._parts.items()
            if known.phase is ReportedPhase.FLOWING and not part.part_state.follows
        ]

    def _stop(self, part: CutPart, target: PositionMark) -> Effect:
        self._parts[part].phase = ReportedPhase.ASKED
        return Stop(part, target)
