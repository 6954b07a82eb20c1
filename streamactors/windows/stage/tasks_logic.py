"""The tasks of a running windowed stage, and what the effects of its state machine do to them.

Owner: the island. `WindowLogic` extends this class by the ports of the stage."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Final

from streamactors.engine.hops.held import HeldStamps
from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.island.run import Run
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Key
from streamactors.log_limit import log_limited
from streamactors.windows.operators.windowed.late_counts import EVERY_MS, FIRST_MS, LateReport
from streamactors.windows.operators.windowed.late_rows import log as late_log
from streamactors.windows.stage import stage_effects as ef
from streamactors.windows.stage import stage_events as ev
from streamactors.windows.stage.keeper import Keeper
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.stage.results import Results
from streamactors.windows.stage.stage_state import StageState
from streamactors.windows.stage.store_reads import StageReads
from streamactors.windows.stage.timers import StageTimers
from streamactors.windows.state.changelogs import Changelog, Provider

log: Final = logging.getLogger(__name__)


class TasksLogic(Logic):
    """Runs the tasks of one windowed stage as its state machine decides."""

    in_: Connection
    state: StageState
    tasks: PartitionTasks
    results: Results
    reads: StageReads
    keeper: Keeper | None
    """The stage as its changelog sees it; None if it keeps none."""
    _changelog: Changelog | None
    _providers: Mapping[Any, Provider]
    _pace: Pace
    _timers_of_stage: StageTimers
    _stamps: HeldStamps
    late_report: LateReport
    _logs_late: bool = False
    _hands: ClassVar[Mapping[type[Any], Callable[[Any, Any], object]]]
    """Carry out the effects, by their types."""

    @property
    def run(self) -> Run:
        """The run of the stage."""
        return self.interpreter.island.run

    def wall_ms(self) -> int:
        """The wall clock, in ms since 1970."""
        return int(self.run.system.clock.wall_ms())

    def _step(self, event: ev.Event) -> bool:
        """Step an event and carry its effects out. Return True if the last one says to look again."""
        effect: ef.Effect | None = None
        hands = self._hands
        for effect in self.state.step(event):
            hands[type(effect)](self, effect)
        return type(effect) is ef.Again

    # ── effects on rows and results ───────────────────────────────────────────────────────────────────────────────

    def _process(self, effect: ef.Process) -> None:
        results: list[Any] = []
        outcome: ev.Event | None
        self._pace.begin()
        try:
            self.tasks.process_into(effect.rows, results)
        except Exception as error:  # noqa: BLE001 - what the rows before it gave goes out first
            outcome = ev.Failed(error)
        else:
            pressed = self._changelog is not None and self.tasks.pressed
            outcome = ev.Processed(pressed) if pressed or self.state.turns else None
        self._pace.end(len(effect.rows))
        if self.late_report.grew and not self._logs_late:
            self._logs_late = True
            self.schedule_once(ev.Timer.LATE_ROWS, FIRST_MS)
        self._put(results)
        if outcome is not None:
            self._step(outcome)

    def _log_late(self) -> None:
        """Log how many rows were dropped; look again while the number grows."""
        lines = self.late_report.lines()
        for line in lines:
            late_log.warning("%s", line)
        self._logs_late = bool(lines)
        if lines:
            self.schedule_once(ev.Timer.LATE_ROWS, EVERY_MS)

    def _log_late_at_the_end(self) -> None:
        """Log what was dropped since the last line. Many short runs log one line a second."""
        for line in self.late_report.lines():
            log_limited(late_log, logging.WARNING, line.partition(":")[0], "%s", line)

    def _put(self, results: list[Any]) -> bool:
        """Queue results, and the rows that were late, until there is demand; return whether there are any."""
        return self.results.put(results, self.tasks.take_late() if len(self.outlets) > 1 else [])

    def _put_mark(self, effect: ef.PutMark) -> None:
        mark = effect.mark
        if type(mark) is Stamp:
            for stamp in self._stamps.hold(mark):
                self.results.put_mark(stamp)
            return
        if isinstance(mark, dict):
            for stamp in self._stamps.passed(mark):  # as from a source: a stamp, then the position it stands at
                self.results.put_mark(stamp)
        self.results.put_mark(mark)

    def _give(self, effect: ef.Give) -> None:
        task, silent_ms = effect.task, effect.silent_ms
        ends = silent_ms is None
        results_of = (
            partial(self.tasks.end_of_input, task) if silent_ms is None else partial(self.tasks.idle, task, silent_ms)
        )
        if not self._give_own(effect.owners, results_of, key=effect.key, last=ends) and ends:
            log.warning(
                "%s: %s was revoked before its end was processed; its next owner closes its windows",
                self.name,
                effect.key[1],
            )

    def _give_own(
        self,
        owners: Mapping[Key, int],
        results_of: Callable[[], list[Any]],
        *,
        key: Key | None = None,
        last: bool = False,
    ) -> bool:
        """Emit results that stem from no row of these inputs. False if the next owner of an input must emit them."""
        changelog = self._changelog
        if changelog is not None and not changelog.may_give(owners, last=last):
            return False
        if self._put(results_of()):
            self._step(ev.Gave(key))
        elif changelog is not None:
            changelog.gave_nothing()
        return True

    def _end_tasks(self, _: ef.EndTasks) -> None:
        try:
            self._put(self.tasks.end_of_input())
        except Exception as error:  # noqa: BLE001
            self._step(ev.Failed(error))

    # ── effects on the tasks of partitions ────────────────────────────────────────────────────────────────────────

    def _new_task(self, effect: ef.NewTask) -> None:
        self.tasks.assigned(effect.task)

    def _drop_task(self, effect: ef.DropTask) -> None:
        state_is_gone = self.tasks.revoked(effect.task)
        if effect.revoked is None:
            return
        if self._changelog is not None:
            self._changelog.revoked(effect.task)
        elif state_is_gone and self._providers:
            log.warning(
                "%s: %s was revoked, and its open windows are lost (changelog=False). A cooperative assignor revokes only "
                "partitions that move: partition.assignment.strategy=cooperative-sticky",
                self.name,
                effect.revoked,
            )

    def _restore(self, effect: ef.Restore) -> None:
        assert self._changelog is not None
        self._changelog.restore(effect.partitions)

    def _install(self, effect: ef.Install) -> None:
        assert self.keeper is not None
        self.tasks.install(effect.task, self.keeper.restored_tasks.pop(effect.task))

    def _write(self, effect: ef.Write) -> None:
        assert self._changelog is not None
        tasks = self.tasks
        changes = [(task, tasks.changes(task)) for task in tasks.tasks]
        self.reads.look_up()
        self._changelog.write(changes, effect.at, effect.ended)

    def _hurry(self, _: ef.Hurry) -> None:
        assert self._changelog is not None
        self._changelog.hurry()

    # ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _keep_time(self) -> None:
        """Start the processors of new tasks, and have a timer call those that are due by the wall clock."""
        tasks = self.tasks.tasks
        try:
            for name, task in tasks.items():
                if not task.is_started:  # if its partition is being revoked, the next owner starts the processors
                    self._give_own(self.state.owners_of(name), task.start)
        except Exception as error:  # noqa: BLE001 - what was forwarded before it goes out first
            self._step(ev.Failed(error))
        if self.state.takes_rows:
            delay_ms = self._timers_of_stage.until_wall_ms(
                (task.wall_due_ms() for task in tasks.values()), self.wall_ms()
            )
            if delay_ms is not None:
                self.schedule_once(ev.Timer.WALL, delay_ms)

    def _call_by_wall(self, _: ef.CallByWall) -> None:
        refused = False
        try:
            for name, task in self.tasks.tasks.items():
                if not self._give_own(self.state.owners_of(name), partial(task.wall_clock, self.wall_ms())):
                    refused = True  # the next owner calls the processors
        except Exception as error:  # noqa: BLE001 - what was forwarded before it goes out first
            self._step(ev.Failed(error))
        self._timers_of_stage.called(refused=refused)

    def _wait_for_silence(self) -> None:
        """Set the timer for the silence at which a task of a stream without partitions emits next."""
        if self.state.inputs or not self.state.takes_rows:
            return
        dues = (task.idle_due_ms() for task in self.tasks.tasks.values())
        delay_ms = self._timers_of_stage.until_silence_ms(dues, self.interpreter.now_ms())
        if delay_ms is not None:
            self.schedule_once(ev.Timer.SILENCE, delay_ms)

    def _look_for_silence(self, _: ef.LookForSilence) -> None:
        now_ms = self.interpreter.now_ms()
        if not self.in_.asked or not self.state.takes_rows:  # an input without demand does not count as silent
            self._timers_of_stage.heard(now_ms)
        else:
            silent_ms = self._timers_of_stage.silent_ms(now_ms)
            for task in self.tasks.tasks:
                self._put(self.tasks.idle(task, silent_ms))
        self._wait_for_silence()
