"""The state machine of the windowed stage: what it takes, holds, emits and writes, and how it ends. Pure: no clock, no thread, no logger.

    OPEN ──the input ends──► DRAINING ──no row is held──► ENDING ──results are out──► WRITING ──a second──► APART
     ▲ │                                                     │ nothing is kept            │ entries are written │
     │ └─ a partition is assigned ─► RESTORING               └────────────► OVER ◄────────┴─────────────────────┘
     └─────── its state was read ──────┘
    every phase but OVER ──a row fails──► FAILING ──the results before it are out──► FAILED

`step(event)` returns effects; the stage's carrier (`window_logic.py`) carries them out in their order, and steps the events that an effect causes
before the next effect. After every event the carrier emits results as far as downstream asks, and steps `Ready`.

Three parts of the state have files of their own: `turns.py` holds rows that wait for rows of another input, `stops.py` decides when entries are
written and which marks pass, `restores.py` knows which states are being read. A stage that keeps no changelog has no stops.

* Without demand: while results wait, nothing is taken, so elements, marks and the end keep their order.
* An assignment waits for the state of its task; nothing after it is taken.
* Silence and the end of an input close windows before the signal itself passes. Where no changelog is kept, the last position passes again after
  these results; else the next stop marks them. While a partition is being revoked, its windows emit results only for rows and for the end.
* The end: a stage further down may keep elements until its input ends, and the last entries may wait for their results. So the outlets complete
  before the stage does, but a second later: usually the entries are written when the sinks end.

Owner: the windowed stage."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final

from streamactors.engine.marks.marks import Assigned, EndOfInput, Idle, Key, PositionMark, Revoked, Signal, TimerResults
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage import stage_effects as ef
from streamactors.windows.stage import stage_events as ev
from streamactors.windows.stage.inputs import Inputs
from streamactors.windows.stage.restores import Restores
from streamactors.windows.stage.stops import Stops
from streamactors.windows.stage.turns import Turns
from streamactors.windows.state.changelogs import MarksPass

HELD_TOGETHER: Final = 1_024
"""Rows that may be taken and held while the task waits for another topic."""
END_FIRST_MS: Final = 1_000.0
"""How long the outlets wait for the last entries before they complete without them."""


class Phase(enum.Enum):
    """What the stage does."""

    OPEN = "rows are taken as downstream asks"
    RESTORING = "the state of a partition is being read, and the inlet is held at its assignment"
    DRAINING = "the input has ended; held rows are processed as downstream asks"
    ENDING = "every row is processed; the last results wait for demand"
    WRITING = "the last results are out; the last entries wait to be written"
    APART = "the outlets have completed, too; the last entries still wait"
    OVER = "complete"
    FAILING = "a row has failed; the results before it wait for demand"
    FAILED = "failed"


MOVES: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.OPEN: frozenset({Phase.RESTORING, Phase.DRAINING, Phase.FAILING, Phase.FAILED}),
    Phase.RESTORING: frozenset({Phase.OPEN, Phase.FAILING, Phase.FAILED}),
    Phase.DRAINING: frozenset({Phase.ENDING, Phase.FAILING, Phase.FAILED}),
    Phase.ENDING: frozenset({Phase.WRITING, Phase.OVER, Phase.FAILING, Phase.FAILED}),
    Phase.WRITING: frozenset({Phase.APART, Phase.OVER, Phase.FAILED}),
    Phase.APART: frozenset({Phase.OVER, Phase.FAILED}),
    Phase.OVER: frozenset(),
    Phase.FAILING: frozenset({Phase.FAILED}),
    Phase.FAILED: frozenset(),
}
WITH_INPUT: Final = frozenset({Phase.OPEN, Phase.RESTORING, Phase.DRAINING})
"""Rows may still be processed, and timers called."""


class StageState:
    """The state of one windowed stage. `failure`: why it fails. `stops`: None if it keeps no changelog."""

    def __init__(
        self, carries: frozenset[Any], ids: TaskIds, max_task_idle_ms: int | None, *, keeps_changelog: bool
    ) -> None:
        """`carries`: the sources whose marks reach the stage."""
        self.phase = Phase.OPEN
        self.failure: BaseException | None = None
        self.inputs = Inputs(ids)
        self.turns = Turns(max_task_idle_ms, ids)
        self.stops: Stops | None = Stops(carries) if keeps_changelog else None
        self.restores = Restores()
        self._task_of = ids.of_input
        self._carries = carries
        self._epochs: dict[Key, int] = {}  # of the assignments of the inputs
        self._steps: dict[type[Any], Callable[[Any], list[ef.Effect]]] = {
            ev.Rows: self._rows,
            ev.Processed: self._processed,
            ev.Failed: self._failed,
            ev.Passed: self._passed,
            ev.Arrived: self._arrived,
            ev.Gave: self._gave,
            ev.Cut: self._cut,
            ev.Committed: self._committed,
            ev.HandedOver: self._handed_over,
            ev.Restored: self._restored,
            ev.Revoking: self._revoking,
            ev.ReadAsked: self._read_asked,
            ev.Due: self._due,
            ev.Completed: self._completed,
            ev.Ready: self._ready,
        }

    def begin(self, sources: Mapping[Any, bool], changelog: tuple[MarksPass, TimerResults | None] | None) -> None:
        """The stage starts. `sources`: see Turns. `changelog`: when marks pass, and the name of the stage's own marks; None if none is kept."""
        self.turns.sources = sources
        if changelog is None:
            self.stops = None
        elif self.stops is not None:
            self.stops.open(*changelog)

    def step(self, event: ev.Event) -> list[ef.Effect]:
        """Return what must be done after an event."""
        return self._steps[type(event)](event)

    # ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def has_failed(self) -> bool:
        """True once a row has failed, or the stage."""
        return self.failure is not None

    @property
    def takes_rows(self) -> bool:
        """True until the input has ended or a row has failed."""
        return self.phase in (Phase.OPEN, Phase.RESTORING)

    def to_hold(self, asked: int) -> int:
        """Return how many rows may be taken and held while the task waits for another topic. Neither the pace nor the size of the demand limits it:
        both follow the rows that are processed, and none is processed during the wait."""
        return HELD_TOGETHER if asked and self.turns.held else 0

    def owners_of(self, task: Any) -> dict[Key, int]:
        """Return the inputs of a task, with the epochs of their assignments."""
        epochs = self._epochs
        return {key: epochs[key] for key in self.inputs.of(task) if key in epochs}

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rows(self, event: ev.Rows) -> list[ef.Effect]:
        self.inputs.heard()
        rows = self.turns.hold(event.rows)
        return [self._process(rows)] if rows else []

    def _process(self, rows: list[Any]) -> ef.Effect:
        if self.stops is not None:
            self.stops.took()
        return ef.Process(rows)

    def _processed(self, event: ev.Processed) -> list[ef.Effect]:
        effects = self.stops.pressed() if event.pressed and self.stops is not None else []
        return effects + self._pass_marks() if self.turns else effects

    def _failed(self, event: ev.Failed) -> list[ef.Effect]:
        self.failure = self.failure or event.error
        if self.phase in WITH_INPUT or self.phase is Phase.ENDING:
            self._move(Phase.FAILING)
        return []

    def fail(self, error: BaseException) -> None:
        """The stage fails now, or is cancelled with an error."""
        self.failure = error
        if self.phase not in (Phase.OVER, Phase.FAILED):
            self._move(Phase.FAILED)

    def _ready(self, event: ev.Ready) -> list[ef.Effect]:
        """Return the next round: rows whose turn has come, or marks after them; else whether to take more or to end."""
        if not self.turns:
            return self._settle(event)
        effects: list[ef.Effect] = []
        if not event.waiting and self.phase not in (Phase.RESTORING, Phase.FAILING):
            rows, effects = self.turns.take(event.now_ms, event.room, ended=self.phase is Phase.DRAINING)
            if rows:
                return [*effects, self._process(rows), ef.Again()]
            passed = self._pass_marks()
            if passed:
                return [*effects, *passed, ef.Again()]
        effects += self.turns.hold_back()
        due_ms = self.turns.deadline_ms()
        if due_ms is not None and self.takes_rows:
            effects.append(ef.Schedule(ev.Timer.TURN, max(1.0, due_ms - event.now_ms)))
        return effects + self._settle(event)

    def _settle(self, event: ev.Ready) -> list[ef.Effect]:
        """Nothing is to be processed now: take more, or end."""
        phase = self.phase
        if phase is Phase.OPEN and not event.waiting:
            most = min(event.asked, event.most)
            return [ef.TakeRows(max(most, self.to_hold(event.asked)) if self.turns else most)]
        if phase is Phase.DRAINING and not self.turns.held:
            return [*self._end_input(), ef.Again()]
        if phase is Phase.RESTORING or event.waiting:
            return [ef.HoldInlet()]
        if phase is Phase.FAILING:
            assert self.failure is not None
            return [ef.FailStage(self.failure)]
        return self._try_to_end() if phase in (Phase.ENDING, Phase.WRITING, Phase.APART) else []

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _passed(self, event: ev.Passed) -> list[ef.Effect]:
        return self._pass(event.mark) if self.turns.position(event.mark) else []

    def _arrived(self, event: ev.Arrived) -> list[ef.Effect]:
        signal = event.signal
        if isinstance(signal, Assigned):
            return self._assigned(event, signal)
        if isinstance(signal, Revoked) or self.turns.signal(signal):
            return self._pass_signal(signal)
        return []

    def _pass_marks(self) -> list[ef.Effect]:
        if self.has_failed:
            return []  # a row that was taken has not been processed, and the next run must read it again
        mark, signals = self.turns.pass_marks()
        effects = self._pass(mark) if mark else []
        for signal in signals:
            effects += self._pass_signal(signal)
        return effects

    def _pass(self, mark: PositionMark) -> list[ef.Effect]:
        """Everything before a position is in the state."""
        if self.stops is None:
            return [ef.PutMark(mark)]
        return self._after_stop(self.stops.position(mark))

    def _pass_signal(self, signal: Signal) -> list[ef.Effect]:
        """Everything before a signal is in the state: act on it, and let it pass."""
        key = signal.key
        task = self._task_of(key[1])
        effects: list[ef.Effect] = []
        if isinstance(signal, Revoked):
            gone = self.inputs.revoked(key)
            self.turns.revoked(key, gone)
            if gone:
                self.restores.dropped(task)
                effects.append(ef.DropTask(task, revoked=key[1]))
        elif isinstance(signal, Idle):
            silent_ms = self.inputs.silent(key, signal.silent_ms)
            if silent_ms is not None:
                effects.append(ef.Give(key, self.owners_of(task), task, silent_ms))
        elif isinstance(signal, EndOfInput):
            sources = sum(not isinstance(each, TimerResults) for each in self._carries)
            ended = self.inputs.ended(key, sources)
            if ended is not None:
                effects.append(ef.Give(key, self.owners_of(task), *ended))
        effects.append(ef.PutMark(signal))
        return effects

    def _gave(self, event: ev.Gave) -> list[ef.Effect]:
        """Results were emitted that stem from no row."""
        if self.stops is not None:
            self.stops.gave()
            return []
        passed, key = self.turns.passed, event.key
        if key in passed and (not self.turns or self.turns.is_exact):
            return [ef.PutMark({key: passed[key]})]
        return []

    # ── partitions that come and go ───────────────────────────────────────────────────────────────────────────────

    def _assigned(self, event: ev.Arrived, signal: Assigned) -> list[ef.Effect]:
        """An input was assigned: make the task of its partition at the first input, with the restored state."""
        key = signal.key
        rows = self.turns.in_the_way(signal, self.inputs.beside(key))
        if rows:
            return [self._process(rows), ef.Then(event)]
        task = self._task_of(key[1])
        first = self.inputs.assigned(key)
        self._epochs[key] = signal.epoch
        effects: list[ef.Effect] = []
        if self.stops is None or not self.stops.part_state.follows:
            effects += self.turns.assigned(signal, self.inputs.beside(key))
        if self.stops is None:
            return [*effects, *([ef.NewTask(task)] if first else []), ef.PutMark(signal)]
        if not first:
            return [*effects, ef.PutMark(signal)]
        self.restores.dropped(task)
        following = {self._task_of(each.key[1]): each.key[1] for each in reversed(event.following)}
        effects += [ef.DropTask(task), *self.restores.assigned(signal, task, following)]
        if self.restores.is_waiting and self.phase is Phase.OPEN:
            self._move(Phase.RESTORING)
        return effects

    def _restored(self, event: ev.Restored) -> list[ef.Effect]:
        effects = self.restores.restored(event.tasks)
        if self.phase is Phase.RESTORING and not self.restores.is_waiting:
            self._move(Phase.OPEN)
        return effects

    def _revoking(self, event: ev.Revoking) -> list[ef.Effect]:
        return self.turns.revoking(event.keys, event.report)

    # ── stops ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _cut(self, event: ev.Cut) -> list[ef.Effect]:
        stops = self.stops
        if stops is None:
            return []
        stops.part_state.ask(event.target)
        # Rows may be held for rows of another topic, which arrive only after the other parts reach this mark: take those before it first.
        if event.target and self.turns.stop_at(event.target):
            return []
        return self._after_stop(stops.try_to_stop())

    def _committed(self, event: ev.Committed) -> list[ef.Effect]:
        if self.stops is None:
            return []
        return self._after_stop(self.stops.committed())

    def _after_stop(self, effects: list[ef.Effect]) -> list[ef.Effect]:
        """A stop may be among the effects: then the rows after the target have their turn."""
        if any(type(each) is ef.Write for each in effects):
            self.turns.go_on()
        return effects

    def _handed_over(self, event: ev.HandedOver) -> list[ef.Effect]:
        if self.stops is not None:
            self.stops.handed_over()
        return []

    def _read_asked(self, event: ev.ReadAsked) -> list[ef.Effect]:
        return [ef.LookUp(), ef.Answer()] if self.stops is None else self.stops.read()

    # ── time and the end ──────────────────────────────────────────────────────────────────────────────────────────

    def _due(self, event: ev.Due) -> list[ef.Effect]:
        if event.timer is ev.Timer.PATIENCE:
            if self.phase is not Phase.WRITING:
                return []
            self._move(Phase.APART)
            return [ef.CompleteOutlets()]
        if self.phase not in WITH_INPUT:
            return []  # the last results wait for demand, and nothing else comes
        if event.timer is ev.Timer.WALL:
            if self.stops is not None:
                self.stops.touched()
            return [ef.CallByWall()]
        return [ef.LookForSilence()] if event.timer is ev.Timer.SILENCE else []

    def _completed(self, event: ev.Completed) -> list[ef.Effect]:
        if self.phase is Phase.OPEN:
            self._move(Phase.DRAINING)
        return []

    def _end_input(self) -> list[ef.Effect]:
        """No further row comes and none is held: emit the results of the windows that the end closes, and write the state."""
        self._move(Phase.ENDING)
        if not self._carries:
            return [ef.EndTasks()]
        return [] if self.stops is None else self._after_stop(self.stops.complete())

    def _try_to_end(self) -> list[ef.Effect]:
        """End, if the state is written. If only the state is missing for a while, the outlets complete before."""
        stops = self.stops
        if stops is None or stops.finished:
            self._move(Phase.OVER)
            return [ef.CompleteStage()]
        if self.phase is Phase.ENDING:
            self._move(Phase.WRITING)
            if stops.gives_nothing_more:
                return [ef.Schedule(ev.Timer.PATIENCE, END_FIRST_MS)]
        return []

    def _move(self, to: Phase) -> None:
        assert to in MOVES[self.phase], f"{self.phase.name} -> {to.name}"
        self.phase = to
