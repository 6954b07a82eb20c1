"""The timers of a windowed stage: processors that the wall clock calls, and the silence of a stream without partitions.

Kafka's partitions report their silence by a mark (`Idle`); a stream without partitions has this timer instead.

Owner: the stage's island."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, Final, Protocol

from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import Key
from streamactors.windows.stage.inputs import Inputs
from streamactors.windows.stage.partition_tasks import PartitionTasks

REVOKING_MS: Final = 100.0
"""How soon, at the earliest, processors are called again by the wall clock while a partition with due processors is being revoked."""


class TimedStage(Protocol):
    """The windowed stage as its timers see it."""

    in_: Connection
    inputs: Inputs
    tasks: PartitionTasks
    completing: bool

    @property
    def now_ms(self) -> float: ...
    def wall_ms(self) -> int: ...
    def put(self, results: list[Any], /) -> bool: ...
    def give_own(self, inputs: Iterable[Key], results_of: Callable[[], list[Any]], /) -> bool | None: ...
    def touched(self) -> None: ...
    def failed(self, error: BaseException, /) -> None: ...
    def drain(self) -> None: ...
    def schedule_once(self, key: Hashable, delay_ms: float, /) -> None: ...


class StageTimers:
    """See the module. The keys of the timers are "wall" and "silence"."""

    def __init__(self, stage: TimedStage, idle_after_ms: int | None) -> None:
        self._stage = stage
        self._idle_after_ms = idle_after_ms
        self._last_input_ms = 0.0
        self._wall_at_least_ms = 1.0

    def heard(self) -> None:
        """Rows have come, or the stage has started."""
        self._last_input_ms = self._stage.now_ms

    def on_timer(self, key: object) -> None:
        """A timer is due."""
        if key == "wall":
            self._call_by_wall_clock()
        else:
            self._look_for_silence()

    # ── processors that are called by the wall clock ──────────────────────────────────────────────────────────────

    def keep_time(self) -> None:
        """Start the processors of new tasks, and have a timer call those that are due by the wall clock."""
        stage = self._stage
        due = []
        try:
            for name, task in stage.tasks.tasks.items():
                results = task.start()
                if results:  # if a revocation refuses them, the next owner starts the processors, too
                    stage.give_own(stage.inputs.of(name), partial(list, results))
                else:
                    stage.put(results)
                at = task.wall_due_ms()
                if at is not None:
                    due.append(at)
        except Exception as error:  # noqa: BLE001 - what was forwarded before it goes out first
            stage.failed(error)
        if due and not stage.completing:
            stage.schedule_once("wall", max(self._wall_at_least_ms, min(due) - stage.wall_ms()))

    def _call_by_wall_clock(self) -> None:
        stage = self._stage
        stage.touched()
        self._wall_at_least_ms = 1.0
        try:
            for name, task in stage.tasks.tasks.items():
                if stage.give_own(stage.inputs.of(name), partial(task.wall_clock, stage.wall_ms())) is None:
                    self._wall_at_least_ms = REVOKING_MS  # the next owner calls the processors
        except Exception as error:  # noqa: BLE001 - what was forwarded before it goes out first
            stage.failed(error)
        stage.drain()

    # ── silence of a stream without partitions ────────────────────────────────────────────────────────────────────

    def wait_for_silence(self) -> None:
        """Set the timer for the silence at which a task emits next."""
        stage = self._stage
        if self._idle_after_ms is None or stage.inputs or stage.completing:
            return
        due = [task.idle_due_ms() for task in stage.tasks.tasks.values()]
        waits = [at for at in due if at is not None]
        if waits:
            silent_ms = stage.now_ms - self._last_input_ms
            stage.schedule_once("silence", max(1.0, min(waits) - silent_ms))

    def _look_for_silence(self) -> None:
        """Check whether the input has been silent long enough. An input without demand does not count as silent."""
        stage = self._stage
        if not stage.in_.asked or stage.completing:
            self.heard()
        else:
            silent_ms = int(stage.now_ms - self._last_input_ms)
            for partition in stage.tasks.tasks:
                stage.put(stage.tasks.idle(partition, silent_ms))
            stage.drain()
        self.wait_for_silence()
