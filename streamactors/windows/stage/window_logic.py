"""The carrier of the windowed stage's state machine: turns what the engine calls into events, and effects into calls.

Owner: the island. `stage_state.py` decides; the tasks hold the rules of windows; results wait in `results.py`. Two calls of another thread end
here: `Keeper` posts events, `StageReads` asks for a state."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any, Final

from streamactors.engine.hops.held import HeldStamps
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.coroutines import run_coroutine
from streamactors.engine.island.pace import Pace
from streamactors.engine.marks.marks import Assigned, Key, Mark
from streamactors.engine.supervision import Directive, directive_for
from streamactors.errors import StreamActorsError
from streamactors.gauges import Gauge
from streamactors.log_limit import log_limited
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import LIVE_TASKS
from streamactors.windows.operators.task_ids import TaskIds
from streamactors.windows.operators.windowed.late_counts import LateReport
from streamactors.windows.stage import stage_effects as ef
from streamactors.windows.stage import stage_events as ev
from streamactors.windows.stage import store_shown as store_shown  # so that tables find their rows in runs
from streamactors.windows.stage.head_time import FAR_AHEAD, MOST_ROWS
from streamactors.windows.stage.keeper import Keeper
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.stage.results import Results
from streamactors.windows.stage.stage_state import StageState
from streamactors.windows.stage.store_reads import StageReads, stores_of
from streamactors.windows.stage.tasks_logic import TasksLogic
from streamactors.windows.stage.timers import StageTimers
from streamactors.windows.state.changelogs import Changelog, Provider, ReportPlaces, changelogs_of
from streamactors.windows.topology.task_factory import TaskFactory

log: Final = logging.getLogger(__name__)


class WindowLogic(TasksLogic):
    """Runs the tasks of one windowed stage."""

    def __init__(self, factory: TaskFactory) -> None:
        self.factory = factory
        self._rows_together = factory.rows_together
        self._keeps_time = factory.keeps_time
        self._timers_of_stage = StageTimers()
        self._stamps = HeldStamps(self, "until its results are committed")
        self._watches_silence = factory.idle_after_ms is not None
        self.keeper: Keeper | None = None  # the stage as its changelog sees it, if it keeps one
        self._changelog: Changelog | None = None
        self._providers: Mapping[Any, Provider] = {}
        self._started = False
        self.gauge = Gauge(
            "windows: rows that wait for another topic",
            unit="rows",
            bounded_by=f"a pause of each input at {FAR_AHEAD} rows, or no wait of a task with {MOST_ROWS}",
        )

    def bind(self) -> None:
        """Called when the connections are known."""
        self.in_ = self.inlets[0]
        self.results = Results(self.outlets)
        intake, carries = self.factory.intake, self.in_.carries
        keeps_changelog = bool(intake.changelog and carries)
        ids = TaskIds(self.factory.sub_topologies)
        self.state = StageState(carries, ids, intake.max_task_idle_ms, keeps_changelog=keeps_changelog)
        self.reads = StageReads(self, self.factory().readable, self.factory.serdes)
        stores_of(self.run).stages.append(self.reads)
        if self.state.stops is not None:
            self.keeper = Keeper(self, self.state.stops)
            changelogs_of(self.run).keepers.append(self.keeper)

    def on_start(self) -> None:
        self.late_report = LateReport(self.wall_ms())
        factory = replace(
            self.factory, on_failure=self._on_failure, on_task=LIVE_TASKS.add, late_report=self.late_report
        )
        factory = factory.in_run(self.wall_ms, partial(run_coroutine, self.run.system))
        self._providers = changelogs_of(self.run).providers_of(self.in_.carries)
        provider = next(iter(self._providers.values()), None)
        if provider is None:
            self.keeper = None
        elif self.keeper is None:
            log_limited(
                log, logging.WARNING, (self.name, provider.application),
                "%s of %s keep no changelog (changelog=False): a restart or a rebalance loses open windows",
                self.name, provider.application,
            )  # fmt: skip
        self.tasks = PartitionTasks(replace(factory, changelog=True) if self.keeper is not None else factory)
        self._started = True
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self._timers_of_stage.heard(self.interpreter.now_ms())
        error: StreamActorsError | None = None
        if self.keeper is not None and provider is not None:
            try:
                self._changelog = self.keeper.open(provider)
            except StreamActorsError as refusal:
                error = refusal
        sources = {source: each.bounded for source, each in self._providers.items()}
        changelog = self._changelog
        own = self.run.timer_results.get(self)
        self.state.begin(sources, None if changelog is None else (changelog.marks_pass, own))
        if error is not None:
            self.fail_stage(error)

    def _on_failure(self, failure: OperatorFailed) -> bool:
        """Ask the stream's decider about the user's own error; True skips the row."""
        cause = failure.__cause__ or failure
        if failure.place:
            cause.add_note(f"record {failure.place}")
        return directive_for(self, cause, failure.element) is not Directive.STOP

    # ── events ────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        self._look()

    def on_push(self, in_: Connection) -> None:
        room = self.room
        if self.state.turns:
            room = max(room, self.state.to_hold(self._asked))
        chunk = in_.grab(room)
        if chunk:
            self._step(ev.Rows(chunk))
        self._look()
        if self._watches_silence:
            if chunk:
                self._timers_of_stage.heard(self.interpreter.now_ms())
            self._wait_for_silence()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if isinstance(mark, dict):
            self.step(ev.Passed(mark))
        elif isinstance(mark, Assigned):
            self.step(ev.Arrived(mark, tuple(takewhile(lambda item: isinstance(item, Assigned), in_.items))))
        else:
            self.step(ev.Arrived(mark))

    def on_complete(self, in_: Connection) -> None:
        self.step(ev.Completed())

    def on_timer(self, key: object) -> None:
        assert isinstance(key, ev.Timer)
        if key is ev.Timer.LATE_ROWS:
            self._log_late()
        else:
            self.step(ev.Due(key))

    def revoking(self, keys: Sequence[Key], report: ReportPlaces | None) -> None:
        """Inputs are about to be revoked, see `Turns.revoking`. Any thread."""
        self.async_callback(self.step).invoke(ev.Revoking(keys, report))

    def step(self, event: ev.Event) -> None:
        """Step an event that no demand waits for, and continue."""
        self._step(event)
        self._look()

    def _look(self) -> None:
        """Emit results up to the demand; then take more rows, or end."""
        state, results, together = self.state, self.results, self._rows_together
        if self._keeps_time and not state.has_failed:
            self._keep_time()
        again = True
        while again:
            results.emit()
            asked, pace = self._asked, self._pace
            room, most = min(asked, max(pace.limit, together)), max(pace.window, together)
            now_ms = self.interpreter.now_ms() if state.turns else 0.0
            again = self._step(ev.Ready(now_ms, asked, room, most, results.waiting))
        if state.turns:
            self.gauge.reached(state.turns.held)

    @property
    def _asked(self) -> int:
        """The demand: the number of elements that every outlet asks for."""
        outlets = self.outlets
        return outlets[0].asked if len(outlets) == 1 else min(out.asked for out in outlets)

    @property
    def room(self) -> int:
        """Number of rows that may be processed at once."""
        return min(self._asked, max(self._pace.limit, self._rows_together))

    # ── effects on sources whose rows are held ────────────────────────────────────────────────────────────────────

    def _read_in_order(self, effect: ef.ReadInOrder) -> None:
        self._providers[effect.source].read_in_order(self)

    def _give_back(self, effect: ef.GiveBack) -> None:
        source, partition = effect.key
        self._providers[source].give_back(partition, effect.place)

    def _hold_back(self, effect: ef.HoldBack) -> None:
        for source, provider in self._providers.items():
            provider.hold_back(self, frozenset(key[1] for key in effect.keys if key[0] == source))

    # ── the inlet, timers and the end ─────────────────────────────────────────────────────────────────────────────────────

    def _hold_inlet(self, _: ef.HoldInlet) -> None:
        self.in_.hold()

    def _take_rows(self, effect: ef.TakeRows) -> None:
        self.in_.release()
        if effect.most:
            self.in_.want(effect.most)

    def _schedule(self, effect: ef.Schedule) -> None:
        self.schedule_once(effect.timer, effect.delay_ms)

    def _complete_outlets(self, _: ef.CompleteOutlets) -> None:
        self.keep_going = True
        for out in self.outlets:
            out.complete()

    def fail_stage(self, error: BaseException) -> None:
        self.state.fail(error)
        super().fail_stage(error)

    def cancel_stage(self, cause: BaseException) -> None:
        if not isinstance(cause, NonFailureCancellation):
            self.state.fail(cause)  # a transaction is aborted for this reason
        super().cancel_stage(cause)

    def on_stop(self) -> None:
        self.reads.close()
        for provider in self._providers.values():
            provider.forget(self)
        if self._started:
            self._log_late_at_the_end()
        with ExitStack() as closing:  # a processor's own error keeps nothing else open
            if self.keeper is not None:
                closing.callback(self.keeper.close, self.state.failure)
            for task in self.tasks.tasks.values() if self._started else ():
                closing.callback(task.close)

    # ── what others see ───────────────────────────────────────────────────────────────────────────────────────────

    def snapshot_state(self) -> str:
        restoring = "; reading a changelog" if self.state.restores.is_waiting else ""
        turns = self.state.turns
        others = ", ".join(sorted(str(key[1]) for key in turns.waits_for))
        ordering = f"; {turns.held} rows wait for {others or 'their turn'}" if turns.held else ""
        return f"{len(self.tasks.tasks)} partitions, {self.results.size} results wait for demand{restoring}{ordering}"

    _hands = {  # noqa: RUF012
        ef.Process: TasksLogic._process,
        ef.PutMark: TasksLogic._put_mark,
        ef.Give: TasksLogic._give,
        ef.EndTasks: TasksLogic._end_tasks,
        ef.NewTask: TasksLogic._new_task,
        ef.DropTask: TasksLogic._drop_task,
        ef.Restore: TasksLogic._restore,
        ef.Install: TasksLogic._install,
        ef.Write: TasksLogic._write,
        ef.Hurry: TasksLogic._hurry,
        ef.LookUp: lambda self, _: self.reads.look_up(),
        ef.Answer: lambda self, _: self.reads.answer(),
        ef.ReadInOrder: _read_in_order,
        ef.GiveBack: _give_back,
        ef.HoldBack: _hold_back,
        ef.ReportPlaces: lambda self, effect: effect.report(effect.places),
        ef.Schedule: _schedule,
        ef.CallByWall: TasksLogic._call_by_wall,
        ef.LookForSilence: TasksLogic._look_for_silence,
        ef.HoldInlet: _hold_inlet,
        ef.TakeRows: _take_rows,
        ef.CompleteOutlets: _complete_outlets,
        ef.CompleteStage: lambda self, _: self.complete_stage(),
        ef.FailStage: lambda self, effect: self.fail_stage(effect.error),
        ef.Then: lambda self, effect: self._step(effect.event),
        ef.Again: lambda self, _: None,
    }
