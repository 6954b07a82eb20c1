"""The turns of a windowed stage's rows: which rows wait for rows of another input, and when the marks after them pass. Pure; part of the stage's
state machine, the time is an argument.

Rows of tasks with several inputs are held in `ordered_inputs` and processed when their turn comes. A position passes when the state has
everything before the positions of all inputs and nothing else, so that a cut at this position contains no later row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle, Key, Position, PositionMark, Signal
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage.head_time import MOST_ROWS, NO_LIMIT
from streamactors.windows.stage.ordered_inputs import OrderedInputs
from streamactors.windows.stage.stage_effects import Effect, GiveBack, HoldBack, ReadInOrder, ReportPlaces
from streamactors.windows.state.changelogs import ReportPlaces as Report


class Turns:
    """The held rows of one stage. False while rows are processed in the order of arrival. `passed`: the positions passed last."""

    def __init__(self, max_task_idle_ms: int | None, ids: TaskIds) -> None:
        self.max_task_idle_ms = max_task_idle_ms
        self._ordered = OrderedInputs(max_task_idle_ms, ids)
        self._orders = self._ordered.orders
        self.sources: Mapping[Any, bool] = {}
        """The sources that can read rows again which were given back. True: the source is bounded, so every partition ends."""
        self.passed: PositionMark = {}
        self._unmarked = False  # rows were processed as they arrived, and their mark has not arrived yet
        self._marked: PositionMark = {}  # positions that wait until all are exact
        self._target: PositionMark | None = None  # where the run stops: only rows before it are processed
        self._held_back: frozenset[Key] = frozenset()
        self.dropped_from: PositionMark = {}
        """The first position of the rows that were held when the stream was stopped; the next run reads them again."""

    def __bool__(self) -> bool:
        return bool(self._orders or self._marked)

    @property
    def held(self) -> int:
        """Number of rows that wait."""
        return self._ordered.size

    @property
    def waits_for(self) -> list[Key]:
        """The inputs that the held rows wait for."""
        return self._ordered.waits_for()

    def hold(self, rows: list[Any]) -> list[Any]:
        """Hold rows; return those that need not wait."""
        if self._orders:
            rows = self._ordered.hold(rows)
        if rows:
            self._unmarked = True
        return rows

    # ── whose turn it is ──────────────────────────────────────────────────────────────────────────────────────────

    def take(self, now_ms: float, most: int, *, ended: bool) -> tuple[list[Any], list[Effect]]:
        """Take up to `most` rows whose turn has come. With `ended` no further row comes, and held rows are given back to their sources where
        they can be read again."""
        effects: list[Effect] = []
        if not most:
            self._ordered.not_asked()
            return [], effects
        if self._target is not None:
            return self._ordered.take_before(self._target, most, wait=not ended), effects
        rows = self._ordered.take(now_ms, most)
        if not rows and ended:
            for key in self._ordered.keys:  # rows keep their order, so the next run reads them again
                if key[0] in self.sources and (place := self._ordered.give_up(key)) is not None:
                    self.dropped_from[key] = place
                    effects.append(GiveBack(key, place))
            rows = self._ordered.take(now_ms, most, wait=False)
        return rows, effects

    def stop_at(self, target: PositionMark) -> bool:
        """Process only rows before `target`, in order, until `go_on`: the run stops there. An input that has reached `target` is not waited
        for; the rows that others lack are on their way. False if no row before `target` is held."""
        self._target = target
        return self._ordered.holds_before(target)

    def go_on(self) -> None:
        """The stage has stopped at a mark that is not before the target."""
        self._target = None

    def hold_back(self) -> list[Effect]:
        """Have the sources pause inputs of which many rows are held, so that demand serves the inputs that these rows wait for."""
        far_ahead = self._ordered.far_ahead(self._held_back)
        if far_ahead == self._held_back:
            return []
        self._held_back = far_ahead
        return [HoldBack(far_ahead)]

    def deadline_ms(self) -> float | None:
        """Return when to look again even if no row has come; None if no input is waited for."""
        return self._ordered.deadline_ms()

    # ── inputs that come and go ───────────────────────────────────────────────────────────────────────────────────

    def in_the_way(self, signal: Assigned, inputs: frozenset[Key]) -> list[Any]:
        """Take the held rows of a task of which a second source reads a topic: their contexts will not say which of the two they came from."""
        second = self._ordered.size and self._ordered.is_second(signal.key, inputs)
        return self._ordered.take_all(signal.key) if second else []

    def assigned(self, signal: Assigned, inputs: frozenset[Key]) -> list[Effect]:
        """An input joins those of its task (`inputs`, itself among them)."""
        source = signal.key[0]
        self._ordered.assigned(signal, inputs, self.passed, NO_LIMIT if source in self.sources else MOST_ROWS)
        return [ReadInOrder(source)] if self._ordered and source in self.sources else []

    def revoking(self, keys: Sequence[Key], report: Report | None) -> list[Effect]:
        """Inputs are about to be revoked, and the group waits for the commit of their records in flight.

        Held rows might wait for rows that are not delivered here any more, so they are given back for the next owner to read. Where other
        stages order the same inputs, all must stop at one position first: this stage reports its own by `report`, and processes only
        rows before the position where all stop."""
        effects: list[Effect] = []
        for key in keys:
            self._ordered.leave(key)
            place = self._ordered.give_up(key) if report is None else None
            if place is not None:
                effects.append(GiveBack(key, place))
        if report is not None and all(key in self._ordered for key in keys):
            effects.append(ReportPlaces(report, {key: self._ordered.taken_to(key) for key in keys}))
        return effects

    def revoked(self, key: Key, task_gone: bool) -> None:
        """An input was revoked: drop its held rows."""
        self._ordered.revoked(key, task_gone)

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def position(self, mark: PositionMark) -> bool:
        """A position mark has come. Return True if it passes at once, else it passes when the rows before it have gone."""
        self._unmarked = False
        if not self._ordered:
            self.passed.update(mark)
            return True
        for key, place in mark.items():
            if key in self._ordered:
                self._ordered.mark(key, place)
            else:
                self._marked[key] = place
        return False

    def signal(self, signal: Signal) -> bool:
        """A signal has come. Return True if it passes at once, else it passes when the rows before it have gone. The order learns at once that an
        input is silent, or at its end."""
        key = signal.key
        if key not in self._ordered:
            return True
        if isinstance(signal, EndOfInput) or (isinstance(signal, Idle) and self.sources.get(key[0], False)):
            self._ordered.end(key)  # no row after the end exists yet, so nothing waits for it
        elif isinstance(signal, Idle):
            self._ordered.silent(key)
        self._ordered.mark(key, signal)
        return False

    @property
    def is_exact(self) -> bool:
        """True if the state has everything before the positions of all inputs, and nothing else."""
        if self._unmarked or (self._target is not None and self._ordered.holds_before(self._target)):
            return False
        return not self._ordered or self._ordered.positions() is not None

    def pass_marks(self) -> tuple[PositionMark, list[Signal]]:
        """Return the positions that pass now, and the signals that pass after them."""
        signals = self._ordered.pass_marks(self._target or {})
        moved: PositionMark = {}
        if self.is_exact:
            at: dict[Key, Position] = self._ordered.positions() or {}
            moved = {key: place for key, place in at.items() if place != self.passed.get(key)} | self._marked
            self._marked = {}
            self.passed.update(moved)
        return moved, signals
