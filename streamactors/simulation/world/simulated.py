"""A simulated world: one run of a user's code on one scheduler, under virtual time, decided by one seed.

Owner: the thread that calls `run`. Decided by a measurement: tasks are greenlets, since a switch between threads costs thirty times as much, and
code that blocks inside a cell rules out executors without stacks. Time, threads, locks, queues, selectors and randomness are replaced while `run` runs, and put back after
it."""

from __future__ import annotations

import asyncio
import copyreg
import gc
import logging
import random
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import ceil
from pathlib import Path
from typing import Any, Final, TypeVar

from streamactors.actors import futures
from streamactors.actors import system as system_module
from streamactors.actors import threads as owners
from streamactors.actors.native_calls import NATIVE_CALLS
from streamactors.actors.pool.elastic_pool import ElasticPool
from streamactors.simulation.world import conditions, polls, refusals, threads, times
from streamactors.simulation.world.chance import Chance
from streamactors.simulation.world.defaults import Defaults
from streamactors.simulation.world.disks import Disks
from streamactors.simulation.world.errors import SimulationError
from streamactors.simulation.world.events import Event
from streamactors.simulation.world.face import Cancel
from streamactors.simulation.world.here import enter, here
from streamactors.simulation.world.patches import Patches
from streamactors.simulation.world.scheduler import Scheduler
from streamactors.simulation.world.trace import Trace
from streamactors.simulation.world.turns import WorldPool
from streamactors.simulation.world.user_state import UserState

T = TypeVar("T")

MOST_STEPS: Final = 2_000_000
LONGEST_S: Final = 30 * 86_400.0
_coroutines: Final = vars(asyncio.tasks)["_all_tasks" if sys.version_info < (3, 12) else "_scheduled_tasks"]
"""Every task of asyncio, by its name in Python 3.11 or 3.12."""
_TABLES: Final = ("_active", "_limbo")
"""Tables of `threading` that a run must not leave entries in."""


class SimulatedWorld:
    """One run. `seed` decides the order of tasks and all randomness: equal seeds give equal traces.

    `lines`: how often (0 to 1) a task gives way between two lines of user code, where a thread might be interrupted; it is slow.
    `max_steps`: turns of tasks, `max_time_s`: virtual seconds; more raise WorldLimit."""

    def __init__(
        self, seed: int | str = 0, *, lines: float = 0.0, max_steps: int = MOST_STEPS, max_time_s: float = LONGEST_S
    ) -> None:
        self.seed = seed
        self.dice = random.Random(f"{seed}/world")
        self.trace = Trace()
        self._lines = lines
        self._max_steps = max_steps
        self._max_us = int(max_time_s * 1e6)
        self._scheduler: Scheduler | None = None
        self._defaults = Defaults()
        self._disks: Disks | None = None
        self._state = UserState()

    # ---- the run ----

    def run(self, main: Callable[[], T], *, code: Iterable[object] = ()) -> T:
        """Run `main()` in the world until it returns; end all other tasks; return its result or raise its error.

        `code`: functions of the user that `main` calls. Modules that they or `main` reach have their state once per instance.

        Raises WorldStuck, WorldLimit and NotSimulated. A world runs once."""
        if self._scheduler is not None:
            raise SimulationError("a world runs once; make a new one with the same seed to see the same run")
        if here() is not None:
            raise SimulationError("a world cannot run inside a world; call world.start for a further instance")
        results: list[T] = []
        scheduler = self._scheduler = Scheduler(
            self.seed, max_steps=self._max_steps, max_us=self._max_us, trace=self.trace, lines=self._lines
        )
        disks = self._disks = Disks(self.dice)
        try:
            with self._replaced(scheduler, (main, *code)):
                task = scheduler.spawn(lambda: results.append(main()), "main", "")
                try:
                    scheduler.run(task)
                finally:
                    with _quiet_log():
                        scheduler.end()
        finally:
            disks.remove()
        return results[0]

    @contextmanager
    def _replaced(self, scheduler: Scheduler, code: Iterable[object]) -> Iterator[None]:
        refusals.install()
        chance = Chance(self.seed)
        patches = Patches(
            [
                *times.replacements(),
                *threads.replacements(),
                *conditions.replacements(),
                *polls.replacements(),
                *chance.replacements(),
                (ElasticPool, WorldPool),
            ],
            [
                *polls.attributes(),
                *threads.attributes(),
                *refusals.attributes(),
                (system_module, "_default", self._defaults),
            ],
        )
        tables = [(vars(threading)[name], vars(threading)[name].copy()) for name in _TABLES]
        names, reducers = owners._names.copy(), copyreg.dispatch_table.copy()
        opened = NATIVE_CALLS.all_open()
        collects, tracing = gc.isenabled(), sys.gettrace()
        gc.disable()  # a collection runs finalizers at moments that differ between runs
        enter(scheduler)
        try:
            chance.begin()
            patches.begin()
            self._state.begin(code)
            scheduler.enter = self._state.enter
            copyreg.dispatch_table.update(times.reducers())
            yield
        finally:
            for failure in list(futures._unread):
                failure.read = True  # of a run that the end of the world has cut off
            for task in list(_coroutines):
                task._log_destroy_pending = False  # it is of a process that has ended
            self._state.end()
            NATIVE_CALLS.forget_all_but(opened)  # an instance that has crashed closes nothing
            patches.end()
            chance.end()
            enter(None)
            for table, before in [*tables, (owners._names, names), (copyreg.dispatch_table, reducers)]:
                table.clear()
                table.update(before)
            times.shifts_us.clear()
            sys.settrace(tracing)
            if collects:
                gc.enable()

    @property
    def _running(self) -> Scheduler:
        scheduler = self._scheduler
        if scheduler is None:
            raise SimulationError("the world does not run; call this in the function that is given to world.run")
        return scheduler

    # ---- what the tasks use ----

    def now_ms(self) -> float:
        """Return virtual monotonic milliseconds since the beginning."""
        return self._running.now_us / 1_000

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC on the clock of the calling instance."""
        return times.wall_us(self.instance(), self._running.now_us) // 1_000

    def sleep(self, ms: float) -> None:
        """Let the calling task wait for virtual milliseconds; other tasks run."""
        scheduler = self._running
        if ms <= 0:
            scheduler.give_way()
        else:
            scheduler.park("a sleep", scheduler.now_us + ceil(ms * 1_000))

    def wait(self, until: Callable[[], bool], timeout_ms: float | None) -> bool:
        """Let the calling task wait until `until()` holds, or for virtual milliseconds (None: no limit). Returns whether it holds."""
        scheduler = self._running
        limit = None if timeout_ms is None else scheduler.now_us + ceil(max(0.0, timeout_ms) * 1_000)
        return scheduler.wait(until, limit, "a condition")

    def later(self, delay_ms: float, step: Callable[[], None], what: str, owner: str = "") -> Cancel:
        """Run `step()` in virtual milliseconds, as a task of its own; `what` names it in the trace.

        `owner`: the instance that the step belongs to: its crash drops the step, and a pause holds it. "": no instance."""
        return self._running.later(ceil(delay_ms * 1_000), step, what, owner).cancel

    def note(self, what: str, **facts: Any) -> None:
        """Write one line to the trace."""
        scheduler = self._running
        task = scheduler.current
        self.trace.note(scheduler.now_us, self.instance(), "" if task is None else task.name, what, facts)

    def event(self, kind: str, **facts: Any) -> None:
        """Write an event to the trace."""
        scheduler = self._running
        task = scheduler.current
        self.trace.event(Event(scheduler.now_us, self.instance(), kind, facts), "" if task is None else task.name)

    def instance(self) -> str:
        """Return the instance that the calling task belongs to; "" outside of instances."""
        task = self._running.current
        return "" if task is None else task.instance

    def fail(self, error: BaseException) -> BaseException:
        """Let the run end with an error, whoever catches it in the calling task. Returns the error, to be raised."""
        return self._running.fail(error)

    def as_main(self, fn: Callable[[], T]) -> T:
        """Return `fn()`, called with the state that user code has in the main task. It must not wait."""
        before = self._state.now
        self._state.enter("")
        try:
            return fn()
        finally:
            self._state.enter(before)

    # ---- instances ----

    def start(self, instance: str, main: Callable[[], object]) -> None:
        """Run `main()` as a task of `instance`, such as "1". Its threads, timers and actor systems belong to the instance, too."""
        self.event("start", of=instance)
        self._running.spawn(main, "main", instance)

    def folder(self, instance: str | None = None) -> Path:
        """Return the state folder of the instance (default: the caller's). It changes with each crash, and what was written is in the new one."""
        assert self._disks is not None
        return self._disks.folder(self.instance() if instance is None else instance)

    def crash(self, instance: str, *, torn: bool = False) -> None:
        """End the instance's process: its tasks stop where they stand, and nothing of it runs any more, `finally` included.

        Its disk keeps what was written; `torn`: dice may cut the end off the file that was written last. `start` runs it again."""
        assert self._disks is not None
        self.event("crash", of=instance)
        tear = self._disks.crash(instance, torn=torn)
        if tear:
            self.note("torn write", of=instance, file=tear)
        self._end_process(instance)

    def stop(self, instance: str) -> None:
        """The instance's main function has returned: end its process. Its disk keeps everything; `start` runs it again."""
        self.event("stop", of=instance)
        self._end_process(instance)

    def _end_process(self, instance: str) -> None:
        scheduler = self._running
        self._defaults.forget(instance)
        self._state.forget(instance)
        scheduler.mark_gone(instance)
        scheduler.leave_if_gone()

    def lose_disk(self, instance: str) -> None:
        """Forget everything that the instance wrote; the next `folder` is empty. Call it after `crash`."""
        assert self._disks is not None
        self.event("disk lost", of=instance)
        self._disks.lose(instance)

    def pause(self, instance: str) -> None:
        """Let no task of the instance run until `resume`, as for a process that the machine does not schedule."""
        self.event("pause", of=instance)
        self._running.pause(instance)

    def resume(self, instance: str) -> None:
        """Let a paused instance run again."""
        self.event("resume", of=instance)
        self._running.resume(instance)

    def shift_clock(self, instance: str, ms: float) -> None:
        """Move the wall clock of the instance by milliseconds, forward or back. Monotonic time is not changed."""
        self.event("clock jumps", of=instance, ms=ms)
        times.shifts_us[instance] = times.shifts_us.get(instance, 0) + int(ms * 1_000)


@contextmanager
def _quiet_log() -> Iterator[None]:
    """Tasks that are ended log that they could not finish; nobody needs to know."""
    before, hook = logging.root.manager.disable, threading.excepthook
    logging.disable(logging.CRITICAL)
    threading.excepthook = lambda arguments: None
    try:
        yield
    finally:
        logging.disable(before)
        threading.excepthook = hook
