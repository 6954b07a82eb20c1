"""The stage that runs windows in a graph: Records in, results out, one task per partition inside.

Owner: the island. The rules are the tasks'; here are demand, marks and silence. Results that downstream has not asked
for wait in a queue, and the inlet is held meanwhile, so elements, marks and completion keep their order. A position
mark passes at once, unless the source keeps a changelog: then the keeper says which ones pass (`keeper.py`).
What closes by silence or by the end of an input comes out before the signal that says so.

The end of an input is told by EndOfInput, which comes only from a source that ends by itself. Where no such source can
be heard (a queue, a generator, a stage in between that lets no marks pass) completion itself is taken for it."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import (
    EXACT_MEMORY,
    Assigned,
    EndOfInput,
    Idle,
    Mark,
    Needs,
    PositionMark,
    Revoked,
    Signal,
)
from streamactors.engine.pace import Pace
from streamactors.engine.stage import FLOW, GraphStage, Shape, Stage
from streamactors.engine.supervision import Directive, directive_for
from streamactors.errors import StreamActorsError
from streamactors.stages.marked_queue import MarkedQueue
from streamactors.windows.changelogs import changelogs_of
from streamactors.windows.compiler import TaskFactory
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.head_time import NO_LIMIT
from streamactors.windows.inputs import Inputs
from streamactors.windows.keeper import Keeper
from streamactors.windows.metrics import LIVE_TASKS
from streamactors.windows.ordered_inputs import OrderedInputs
from streamactors.windows.tasks import WindowTasks, number_of

log: Final = logging.getLogger(__name__)

MAX_IDLE_MS: Final = 1_000
"""How long a task of several inputs waits for one that has no rows and has not said that it has none."""

WITH_LATE = Shape(("in",), ("out", "late"))


def _keeps_changelog(source: GraphStage) -> bool:
    return bool(getattr(source, "keeps_changelog", False))


class WindowStage(Stage[Any, Any]):
    """Group, window, aggregate and suppress Records as a blueprint says. With `keep_late` the second outlet gives the
    rows that closed windows refused (LateRecord).

    Emits when: an update or a window's result is due and downstream asks.   Backpressures when: an outlet does.
    Completes when: upstream completes and all results are out.              Cancels when: an outlet cancels.
    Supervision: resume and restart drop the row whose function raised; the windows keep their state.
    Marks: pass behind what was given out before, with a changelog one for each commit; exact.
    `durable`: keep a changelog if the source offers one.
    """

    name = "windows"
    handling = EXACT_MEMORY
    max_idle_ms: float = MAX_IDLE_MS
    reads_marks = True  # the end of an input, silence and assignment of partitions are marks

    def __init__(self, factory: TaskFactory, durable: bool = True, max_idle_ms: float | None = None) -> None:
        self.factory = factory
        self.durable = durable
        if max_idle_ms is not None:
            self.max_idle_ms = max_idle_ms
        self.shape = WITH_LATE if factory.keep_late else FLOW
        if durable:
            self.needs = Needs("windows with a changelog", exact=True, if_from=_keeps_changelog)

    def logic(self) -> Logic:
        return WindowLogic(self.factory, self.durable, self.max_idle_ms)


class WindowLogic(Logic):
    """Runs the tasks."""

    def __init__(self, factory: TaskFactory, durable: bool, max_idle_ms: float) -> None:
        self._factory = factory
        self._durable = durable
        self._keeper: Keeper | None = None
        self._idle_after_ms = factory.blueprint.idle_after_ms
        self._results = MarkedQueue()
        self._late = MarkedQueue()
        self._completing = False
        self._ending = False
        self._failure: BaseException | None = None
        self._inputs = Inputs()
        self._ordered = OrderedInputs(max_idle_ms)
        self._positions: PositionMark = {}  # passed last
        self._unmarked = False  # rows were taken as they came, and their mark is not here yet
        self._marked: PositionMark = {}  # positions that wait until all are exact
        self._letting_go = False
        self._last_input_ms = 0.0

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self._changelogs = changelogs_of(self.interpreter.island.run)
        if self._durable and self.in_.carries:
            self._keeper = Keeper(self)
            self._changelogs.keepers.append(self._keeper)

    def on_start(self) -> None:
        factory = replace(self._factory, on_failure=self._on_failure, on_task=LIVE_TASKS.add)
        provider = self._changelogs.provider_of(self.in_.carries)
        if provider is None:
            self._keeper = None
        elif self._keeper is None:
            log.warning(
                "%s of %s keep no changelog (changelog=False): a restart loses open windows",
                self.name,
                provider.application,
            )
        self.tasks = WindowTasks(replace(factory, changelog=True) if self._keeper is not None else factory)
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._last_input_ms = self.interpreter.now_ms()
        if self._keeper is not None and provider is not None:
            try:
                self._keeper.open(provider)
            except StreamActorsError as error:
                self.fail_stage(error)

    def _on_failure(self, failure: OperatorFailed) -> bool:
        """Ask the stream's decider about the user's own error; True skips the row."""
        cause = failure.__cause__ or failure
        return directive_for(self, cause, failure.element) is not Directive.STOP

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self.drain()

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(min(self._demand(), self._pace.limit))
        if chunk:
            self._last_input_ms = self.interpreter.now_ms()
            self._inputs.heard()
            if self._ordered:
                chunk = self._ordered.hold(chunk)
            if chunk:
                self._unmarked = True
                self._process(chunk)
        self.drain()
        self._wait_for_silence()

    def _process(self, rows: list[Any]) -> None:
        if self._keeper is not None:
            self._keeper.taken()
        results: list[Any] = []
        self._pace.begin()
        try:
            self.tasks.process_into(rows, results)
        except Exception as error:  # noqa: BLE001 - what the rows before it gave goes out first
            self._failure = error
        self._pace.end(len(rows))
        self._put(results)

    def _demand(self) -> int:
        """Rows that may be taken: what every outlet asks for."""
        return min(out.asked for out in self.outlets)

    def _put(self, results: list[Any]) -> None:
        self._results.put(results)
        if len(self.outlets) > 1:
            self._late.put(self.tasks.take_late())

    def drain(self) -> None:
        """Hand out what is asked for; then take more, or end."""
        self._hand_out()
        if self._ordered or self._marked:
            self._take_held()
        if self._must_hold():
            self.in_.hold()
            return
        if self._failure is not None:
            self.fail_stage(self._failure)
            return
        keeper = self._keeper
        self.in_.release()
        if self._completing:
            if not self._ordered.size and (keeper is None or keeper.finished):
                self.complete_stage()
            return
        demand = self._demand()
        if demand:
            self.in_.want(min(demand, self._pace.window))

    def _hand_out(self) -> None:
        outlets = self.outlets
        self._results.push_out(outlets[0].asked, outlets[0].push, outlets[0].mark)
        if len(outlets) > 1:
            self._late.push_out(outlets[1].asked, outlets[1].push, outlets[1].mark)

    def _must_hold(self) -> bool:
        """True while results wait for demand, or the state of a partition is being read."""
        return bool(self._results or self._late or (self._keeper is not None and self._keeper.is_restoring))

    # ── tasks of several inputs ───────────────────────────────────────────────────────────────────────────────────

    def _take_held(self) -> None:
        """Process rows whose turn has come; see `ordered_inputs`."""
        ordered, now_ms = self._ordered, self.interpreter.now_ms()
        while self._failure is None and not self._must_hold():
            most = min(self._demand(), self._pace.limit)
            rows = ordered.take(now_ms, most, not (self._letting_go or self._completing)) if most else []
            if rows:
                self._process(rows)
            elif not most:
                ordered.not_asked()
            if not ordered.size:
                self._letting_go = False
            self._pass_positions()
            self._hand_out()
            if not rows:
                break
        due_ms = ordered.deadline_ms()
        if due_ms is not None and not self._completing:
            self.schedule_once("held", max(1.0, due_ms - now_ms))
        if self._completing and not ordered.size:
            self._end_input()

    def _pass_positions(self) -> None:
        """Let pass what no row is in front of: positions if all are exact, so that a cut at them has nothing behind it."""
        signals = self._ordered.pass_marks()
        if self._is_exact():
            at = self._ordered.positions() or {}
            moved = {key: place for key, place in at.items() if place != self._positions.get(key)} | self._marked
            self._marked = {}
            if moved:
                self._pass_position(moved)
        for signal in signals:
            self._pass_signal(signal)

    def _is_exact(self) -> bool:
        """True if everything before the positions of all inputs is in the state, and nothing else."""
        if self._unmarked or (self._letting_go and self._ordered.size):
            return False
        return not self._ordered or self._ordered.positions() is not None

    def let_go(self) -> bool:
        """Wait for no input until nothing is held any more. False if nothing is."""
        self._letting_go = bool(self._ordered.size)
        return self._letting_go

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if isinstance(mark, dict):
            self._unmarked = False
            if self._ordered:
                self._hold_position(mark)
            else:
                self._pass_position(mark)
        elif isinstance(mark, Assigned):
            self._assigned(mark)
        elif mark.key in self._ordered and not isinstance(mark, Revoked):
            self._hold_signal(mark)
        else:
            self._pass_signal(mark)
        self.drain()

    def _hold_position(self, mark: PositionMark) -> None:
        """A position goes when the rows before it have gone."""
        for key, place in mark.items():
            if key in self._ordered:
                self._ordered.mark(key, place)
            else:
                self._marked[key] = place

    def _hold_signal(self, mark: Mark) -> None:
        """So does a signal; it is known at once that nothing more comes."""
        if isinstance(mark, EndOfInput):
            self._ordered.end(mark.key)
            self._ordered.mark(mark.key, mark)
        elif isinstance(mark, Idle):
            self._ordered.silent(mark.key)
            self._ordered.mark(mark.key, mark)

    def _pass_signal(self, mark: Signal) -> None:
        partition = number_of(mark.key[1])
        if isinstance(mark, Revoked):
            gone = self._inputs.revoked(mark.key)
            self._ordered.revoked(mark.key, gone)
            if gone:
                self.tasks.revoked(partition)
        elif isinstance(mark, Idle):
            silent_ms = self._inputs.silent(mark.key, mark.silent_ms)
            if silent_ms is not None:
                self._give_out(self.tasks.idle(partition, silent_ms), mark.key)
        elif isinstance(mark, EndOfInput):
            ended = self._inputs.ended(mark.key, len(self.in_.carries))
            if ended is not None:
                self._give_out(self.tasks.end_of_input(*ended), mark.key)
        self.put_mark(mark)

    def _pass_position(self, mark: PositionMark) -> None:
        """Everything before a position is done: let it pass, or leave it to the keeper."""
        self._positions.update(mark)
        if self._keeper is None:
            self.put_mark(mark)
        else:
            self._keeper.position(mark)

    def _assigned(self, signal: Assigned) -> None:
        """A partition is ours: make its task when the first of its inputs comes, with the state that is kept of it."""
        if self._ordered.size and self._ordered.is_second(signal.key, self._inputs.beside(signal.key)):
            self._process(self._ordered.take(0, NO_LIMIT, False))
            self._pass_positions()
        first = self._inputs.assigned(signal.key)
        if self._keeper is None or not self._keeper.follows:
            self._ordered.assigned(signal, self._inputs.beside(signal.key), self._positions)
        partition = number_of(signal.key[1])
        if first and self._keeper is not None:
            self.tasks.revoked(partition)  # a source that was restarted begins again where it had committed
            self._keeper.assigned(signal)
        else:
            if first:
                self.tasks.assigned(partition)
            self.put_mark(signal)

    def put_mark(self, mark: Mark) -> None:
        self._results.put_mark(mark)
        if len(self.outlets) > 1:
            self._late.put_mark(mark)

    def _give_out(self, results: list[Any], key: Any) -> None:
        """Results that no row gave; the last position is told again behind them, with a changelog by the next cut."""
        if results:
            self._put(results)
            if self._keeper is None and key in self._positions and (not self._ordered or self._is_exact()):
                self.put_mark({key: self._positions[key]})

    # ── silence of a stream without partitions, and the end ───────────────────────────────────────────────────────

    def _wait_for_silence(self) -> None:
        if self._idle_after_ms is None or self._inputs or self._completing:
            return
        due = [task.idle_due_ms() for task in self.tasks.tasks.values()]
        waits = [at for at in due if at is not None]
        if waits:
            silent_ms = self.interpreter.now_ms() - self._last_input_ms
            self.schedule_once("silence", max(1.0, min(waits) - silent_ms))

    def on_timer(self, key: object) -> None:
        """The input may have been silent long enough; not if it was only not asked."""
        if key == "held":
            self.drain()
            return
        if not self.in_.asked or self._completing:
            self._last_input_ms = self.interpreter.now_ms()
        else:
            silent_ms = int(self.interpreter.now_ms() - self._last_input_ms)
            for partition in self.tasks.tasks:
                self._put(self.tasks.idle(partition, silent_ms))
            self.drain()
        self._wait_for_silence()

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if not self._ordered.size:
            self._end_input()
        self.drain()

    def _end_input(self) -> None:
        """Nothing more comes and nothing is held: give out what the end closes, and keep the state."""
        if self._ending:
            return
        self._ending = True
        if not self.in_.carries:
            try:
                self._put(self.tasks.end_of_input())
            except Exception as error:  # noqa: BLE001
                self._failure = error
        elif self._keeper is not None and self._failure is None:
            self._keeper.complete()
        self._hand_out()

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error
        super().fail_stage(error)

    def on_stop(self) -> None:
        if self._keeper is not None:
            self._keeper.close(self._failure)

    def snapshot_state(self) -> str:
        waiting = self._results.size + self._late.size
        restoring = "; reading a changelog" if self._keeper is not None and self._keeper.is_restoring else ""
        return f"{len(self.tasks.tasks)} partitions, {waiting} results wait for demand{restoring}"
