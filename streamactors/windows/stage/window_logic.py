"""What the windowed stage does with rows, demand and marks.

Owner: the island. The tasks hold the rules of windows; this file handles demand, marks and the end. Results without demand wait in a queue, and the
inlet is held meanwhile, so elements, marks and completion keep their order. A position mark passes at once, unless the source keeps a
changelog: then the keeper decides which marks pass (`keeper.py`). The results of windows that close by silence, or by the end of an input,
leave the stage before the signal of that silence or end. If a task reads several topics, rows first wait for their turn (`turns.py`). The wall clock
and the silence of a stream without partitions are in `timers.py`; what readers from outside see is in `readable_logic.py`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any, Final

from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.coroutines import run_coroutine
from streamactors.engine.island.pace import Pace
from streamactors.engine.island.run import Run
from streamactors.engine.marks.marks import (
    Assigned,
    EndOfInput,
    Idle,
    Key,
    Mark,
    OwnResults,
    PositionMark,
    Revoked,
    Signal,
)
from streamactors.engine.supervision import Directive, directive_for
from streamactors.errors import StreamActorsError
from streamactors.log_limit import log_limited
from streamactors.stages.bases.marked_queue import MarkedQueue
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import LIVE_TASKS
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.stage.inputs import Inputs
from streamactors.windows.stage.keeper import Keeper
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.stage.readable_logic import ReadableLogic
from streamactors.windows.stage.store_reads import StageReads, stores_of
from streamactors.windows.stage.timers import StageTimers
from streamactors.windows.stage.turns import Turns
from streamactors.windows.state.changelogs import changelogs_of
from streamactors.windows.topology.task_factory import TaskFactory

log: Final = logging.getLogger(__name__)

HELD_TOGETHER: Final = 1_024
END_FIRST_MS: Final = 1_000.0
"""How long the stage waits for its last entries before it completes its outlets without them. So the state is usually written when the sinks end."""


class WindowLogic(ReadableLogic):
    """Runs the tasks."""

    def __init__(self, factory: TaskFactory) -> None:
        self.factory = factory
        self.intake = factory.intake
        self._keeper: Keeper | None = None
        self._rows_together = factory.rows_together
        self._results = MarkedQueue()
        self._late = MarkedQueue()
        self.completing = False
        self._ending = False
        self._failure: BaseException | None = None
        self.ids = TaskIds(factory.sub_topologies)
        self.inputs = Inputs(self.ids)
        self.turns = Turns(self, self.intake.max_task_idle_ms, self.ids)
        self._stage_timers = StageTimers(self, factory.idle_after_ms)
        self._started = False

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self.stores = self.factory().readable
        self._reads = StageReads(self)
        stores_of(self.run).stages.append(self._reads)
        self._changelogs = changelogs_of(self.interpreter.island.run)
        if self.intake.changelog and self.in_.carries:
            self._keeper = Keeper(self)
            self._changelogs.keepers.append(self._keeper)

    def on_start(self) -> None:
        factory = replace(self.factory, on_failure=self._on_failure, on_task=LIVE_TASKS.add)
        factory = factory.in_run(self.wall_ms, partial(run_coroutine, self.run.system))
        self.turns.providers = self._changelogs.providers_of(self.in_.carries)
        provider = next(iter(self.turns.providers.values()), None)
        if provider is None:
            self._keeper = None
        elif self._keeper is None:
            log_limited(
                log, logging.WARNING, (self.name, provider.application),
                "%s of %s keep no changelog (changelog=False): a restart or a rebalance loses open windows",
                self.name, provider.application,
            )  # fmt: skip
        self.tasks = PartitionTasks(replace(factory, changelog=True) if self._keeper is not None else factory)
        self._started = True
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._stage_timers.heard()
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
        chunk = in_.grab(max(self.room, self._to_hold))
        if chunk:
            self._stage_timers.heard()
            self.inputs.heard()
            chunk = self.turns.hold(chunk)
            if chunk:
                self.process(chunk)
        self.drain()
        self._stage_timers.wait_for_silence()

    def process(self, rows: list[Any]) -> None:
        """Give rows to their tasks; the results wait to be handed out."""
        if self._keeper is not None:
            self._keeper.taken()
        results: list[Any] = []
        self._pace.begin()
        try:
            self.tasks.process_into(rows, results)
        except Exception as error:  # noqa: BLE001 - what the rows before it gave goes out first
            self._failure = error
        self._pace.end(len(rows))
        if self._keeper is not None and self.tasks.pressed:
            self._keeper.pressed()
        self.put(results)

    @property
    def run(self) -> Run:
        """The run of the stage."""
        return self.interpreter.island.run

    @property
    def now_ms(self) -> float:
        """The time of the island's clock."""
        return self.interpreter.now_ms()

    @property
    def may_process(self) -> bool:
        """False while results wait for demand or the state of a partition is being read, and once the stage has failed."""
        return not self.has_failed and not self._must_hold()

    @property
    def has_failed(self) -> bool:
        """True once a row has failed, or the stage."""
        return self._failure is not None

    @property
    def room(self) -> int:
        """Number of rows that may be processed at once."""
        return min(self._demand(), max(self._pace.limit, self._rows_together))

    @property
    def _to_hold(self) -> int:
        """Number of rows that may be taken and held while another topic is waited for. The pace and the size of the demand do not limit it:
        both follow the rows that are processed, and none is processed during the wait."""
        return HELD_TOGETHER if self.turns.held and self._demand() else 0

    def _demand(self) -> int:
        """Number of rows that may be taken: the smallest demand of the outlets."""
        return min(out.asked for out in self.outlets)

    def put(self, results: list[Any]) -> bool:
        """Have results wait to be handed out, and the late rows; return whether there are any."""
        late = self.tasks.take_late() if len(self.outlets) > 1 else []
        self._results.put(results)
        self._late.put(late)
        return bool(results or late)

    def drain(self) -> None:
        """Emit results up to the demand; then take more rows, or end."""
        if self.factory.keeps_time and not self.has_failed:
            self._stage_timers.keep_time()
        self.hand_out()
        if self.turns:
            self.turns.take()
            if self.completing and not self.turns.held:
                self._end_input()
        if self._must_hold():
            self.in_.hold()
            return
        if self._failure is not None:
            self.fail_stage(self._failure)
            return
        self.in_.release()
        if self.completing:
            self._try_to_end()
            return
        demand = self._demand()
        if demand:
            self.in_.want(max(min(demand, max(self._pace.window, self._rows_together)), self._to_hold))

    def _try_to_end(self) -> None:
        """End, if no row is held and the state is written. If only the state is missing for a while, downstream ends before."""
        keeper = self._keeper
        if self.turns.held:
            return
        if keeper is None or keeper.finished:
            self.complete_stage()
        elif keeper.gives_nothing_more and not self.keep_going and not self.is_timer_active("end"):
            self.schedule_once("end", END_FIRST_MS)

    def _end_downstream(self) -> None:
        """The last entries still wait: maybe for a stage that keeps elements until its input ends."""
        self.keep_going = True
        for out in self.outlets:
            out.complete()

    def hand_out(self) -> None:
        """Emit waiting results up to the demand."""
        outlets = self.outlets
        self._results.push_out(outlets[0].asked, outlets[0].push, outlets[0].mark)
        if len(outlets) > 1:
            self._late.push_out(outlets[1].asked, outlets[1].push, outlets[1].mark)

    def _must_hold(self) -> bool:
        """True while results wait for demand, or the state of a partition is being read."""
        return bool(self._results or self._late or (self._keeper is not None and self._keeper.is_restoring))

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if isinstance(mark, dict):
            self.turns.position(mark)
        elif isinstance(mark, Assigned):
            self._assigned(mark)
        elif isinstance(mark, Revoked):
            self.pass_signal(mark)
        else:
            self.turns.signal(mark)
        self.drain()

    def pass_signal(self, mark: Signal) -> None:
        """Act on a signal, and let it pass."""
        partition = self.ids.of_input(mark.key[1])
        if isinstance(mark, Revoked):
            gone = self.inputs.revoked(mark.key)
            self.turns.revoked(mark.key, gone)
            if gone:
                state_is_gone = self.tasks.revoked(partition)
                if self._keeper is not None:
                    self._keeper.revoked(partition)
                elif state_is_gone and self.turns.providers:
                    log.warning(
                        "%s: %s was revoked, and its open windows are lost (changelog=False). A cooperative assignor revokes only "
                        "partitions that move: partition.assignment.strategy=cooperative-sticky",
                        self.name,
                        mark.key[1],
                    )
        elif isinstance(mark, Idle):
            silent_ms = self.inputs.silent(mark.key, mark.silent_ms)
            if silent_ms is not None:
                self._give_out(mark.key, partial(self.tasks.idle, partition, silent_ms))
        elif isinstance(mark, EndOfInput):
            sources = sum(not isinstance(each, OwnResults) for each in self.in_.carries)
            ended = self.inputs.ended(mark.key, sources)
            if ended is not None:
                self._give_out(mark.key, partial(self.tasks.end_of_input, *ended), last=True)
        self.put_mark(mark)

    def pass_position(self, mark: PositionMark) -> None:
        """Everything before a position is done: let it pass, or leave it to the keeper."""
        if self._keeper is None:
            self.put_mark(mark)
        else:
            self._keeper.position(mark)

    def _assigned(self, signal: Assigned) -> None:
        """An input was assigned: make the task of its partition at the first input, with the restored state."""
        first = self.inputs.assigned(signal.key)
        if self._keeper is not None:
            self._keeper.joined(signal)
        if self._keeper is None or not self._keeper.standing.follows:
            self.turns.assigned(signal, self.inputs.beside(signal.key))
        partition = self.ids.of_input(signal.key[1])
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

    def give_own(
        self, inputs: Iterable[Key], results_of: Callable[[], list[Any]], *, last: bool = False
    ) -> bool | None:
        """Emit results that stem from no row of these inputs. Return whether there were any; None if the next owner of an input must emit them."""
        keeper = self._keeper
        if keeper is None:
            return self.put(results_of())
        if not keeper.may_give(inputs, last=last):
            return None
        gave = self.put(results_of())
        keeper.gave(gave)
        return gave

    def _give_out(self, key: Key, results_of: Callable[[], list[Any]], *, last: bool = False) -> None:
        """Emit the results of an input's silence or end. The last position mark passes again behind them; with a changelog, the next cut puts a mark there."""
        gave = self.give_own(self.inputs.beside(key), results_of, last=last)
        passed = self.turns.passed
        if gave is None and last:
            log.warning(
                "%s: %s was revoked before its end was processed; its next owner closes its windows", self.name, key[1]
            )
        elif gave and self._keeper is None and key in passed and (not self.turns or self.turns.is_exact):
            self.put_mark({key: passed[key]})

    def wall_ms(self) -> int:
        """The wall clock, in ms since 1970."""
        return int(self.run.system.clock.wall_ms())

    def touched(self) -> None:
        """The state may have changed without a row."""
        if self._keeper is not None:
            self._keeper.touched()

    def failed(self, error: BaseException) -> None:
        """The stage fails with this error when the results before it are out."""
        self._failure = error

    # ── the end ───────────────────────────────────────────────────────────────────────────────────────────────────

    def on_timer(self, key: object) -> None:
        if key == "end":
            self._end_downstream()
        elif self.has_failed or self._ending:
            return  # the last results wait for demand, and nothing else comes
        elif key == "held":
            self.drain()
        else:
            self._stage_timers.on_timer(key)

    def on_complete(self, in_: Connection) -> None:
        self.completing = True
        if not self.turns.held:
            self._end_input()
        self.drain()

    def _end_input(self) -> None:
        """No row comes any more and none is held: emit the results of the windows that the end closes, and write the state."""
        if self._ending:
            return
        self._ending = True
        if not self.in_.carries:
            try:
                self.put(self.tasks.end_of_input())
            except Exception as error:  # noqa: BLE001
                self._failure = error
        elif self._keeper is not None and self._failure is None:
            self._keeper.complete()
        self.hand_out()

    def fail_stage(self, error: BaseException) -> None:
        self._failure = error
        super().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self._failure = cause  # a transaction is aborted for this reason
        super().cancel_stage(cause)

    def on_stop(self) -> None:
        self._reads.close()
        self.turns.close()
        with ExitStack() as closing:  # a processor's own error keeps nothing else open
            if self._keeper is not None:
                closing.callback(self._keeper.close, self._failure)
            for task in self.tasks.tasks.values() if self._started else ():
                closing.callback(task.close)

    def snapshot_state(self) -> str:
        waiting = self._results.size + self._late.size
        restoring = "; reading a changelog" if self._keeper is not None and self._keeper.is_restoring else ""
        behind = ", ".join(sorted(str(key[1]) for key in self.turns.waits_for))
        ordering = f"; {self.turns.held} rows wait for {behind or 'their turn'}" if self.turns.held else ""
        return f"{len(self.tasks.tasks)} partitions, {waiting} results wait for demand{restoring}{ordering}"
