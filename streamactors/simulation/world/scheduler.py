"""The scheduler of a simulated world: exactly one task runs, dice pick the next ready one, and time moves only when none is ready.

Owner: the OS thread that runs the world. Tasks are greenlets on that thread. A switch costs 0.4 to 1.5 µs, where handing over between
threads costs 17 to 34 µs and starting a thread 65 to 500 µs (two cores, CPython 3.11). Greenlets also may switch inside a trace function.
A task gives way only in the world's primitives: locks, sleeps, queues, selectors, and at random when it takes a free lock."""

from __future__ import annotations

import heapq
import random
from asyncio import _get_running_loop, _set_running_loop
from collections.abc import Callable
from contextvars import Context
from threading import get_ident
from typing import Final

from greenlet import getcurrent, greenlet

from streamactors.simulation.world.errors import SimulationError, TaskEnded, WorldLimit, WorldStuck
from streamactors.simulation.world.lines import Lines
from streamactors.simulation.world.task import Task
from streamactors.simulation.world.trace import Trace

FIRST_IDENT: Final = 1 << 50
"""Idents of tasks are beyond those of threads."""
READS_AT_ONE_TIME: Final = 1_000
"""Reads of a clock at one moment; later reads move the time, or a loop that waits for a deadline without a wait would never end."""
READ_US: Final = 1_000
SWITCHES_AT_LOCKS: Final = 0.05
"""How often a task gives way when it takes a free lock."""
SWITCHES_AT_WAKING: Final = 0.5
"""How often a task gives way to those that it has just woken."""
MAIN: Final = 1
"""The number of the task that `world.run` begins with."""
A_LOCK: Final = "a lock"
"""What a task waits for that wants a lock."""
_ENDINGS: Final = 100
"""How often a task is ended that catches what ends it."""


class Step:
    """A function that becomes a task when it is due, unless it is cancelled."""

    __slots__ = ("cancelled", "instance", "run", "what")

    def __init__(self, run: Callable[[], object], what: str, instance: str) -> None:
        self.run = run
        self.what = what
        self.instance = instance
        self.cancelled = False

    def cancel(self) -> None:
        """Forget the step. Does nothing after it has begun."""
        self.cancelled = True


class Scheduler:
    """The tasks of one run. Times are µs since its beginning."""

    def __init__(self, seed: int | str, *, max_steps: int, max_us: int, trace: Trace, lines: float = 0.0) -> None:
        self.dice = random.Random(f"{seed}/order")
        self.trace = trace
        self.now_us = 0
        self.steps = 0
        self.current: Task | None = None
        self.thread = get_ident()
        self.ending = False
        self.tasks: dict[Task, None] = {}
        self.paused: dict[str, list[Task]] = {}
        self._lines = Lines(self, lines) if lines else None
        self._max_steps = max_steps
        self._max_us = max_us
        self._ready: list[Task] = []
        self._due: list[tuple[int, int, Task | Step, int]] = []
        self._conditions: dict[Task, Callable[[], bool]] = {}
        self._free: list[greenlet] = []
        self._numbers = 0
        self._next_ident = FIRST_IDENT << 1
        self._set_timers = 0
        self._reads = 0
        self._hub = getcurrent()
        self._inside: str | None = ""
        self.enter: Callable[[str], None] = lambda instance: None
        """Called before a task of another instance than the last one runs. The cluster's steps are of none."""
        self._failure: BaseException | None = None

    # ---- tasks ----

    def spawn(
        self, run: Callable[[], object], name: str, instance: str | None = None, ident: int | None = None
    ) -> Task:
        """Add a ready task. `instance`: that of the calling task unless given."""
        if instance is None:
            instance = "" if self.current is None else self.current.instance
        self._numbers += 1
        task = Task(self._numbers, name, instance, FIRST_IDENT + self._numbers if ident is None else ident, run)
        self.tasks[task] = None
        self._make_ready(task)
        return task

    def idents(self, count: int) -> int:
        """Return the first of `count` idents for tasks that come and go, as a pool's threads."""
        first, self._next_ident = self._next_ident, self._next_ident + count
        return first

    def _make_ready(self, task: Task) -> None:
        self.paused.get(task.instance, self._ready).append(task)

    def later(self, delay_us: int, run: Callable[[], object], what: str, instance: str = "") -> Step:
        """Run a function in a task of its own after a time."""
        step = Step(run, what, instance)
        self._set_timer(self.now_us + max(0, delay_us), step, 0)
        return step

    def _set_timer(self, due_us: int, what: Task | Step, ticket: int) -> None:
        self._set_timers += 1
        heapq.heappush(self._due, (due_us, self._set_timers, what, ticket))

    # ---- what tasks call ----

    def park(self, waits: str, until_us: int | None = None) -> bool:
        """Let the calling task wait until `wake`, or until a time. Returns True when woken, False when the time was over."""
        task = self.current
        if task is None:
            raise SimulationError(
                f"{waits}: code outside the tasks of the world cannot wait; start it with world.start"
            )
        if self.ending or task.gone:
            raise TaskEnded
        task.waits, task.parked, task.timed_out = waits, True, False
        task.ticket += 1
        if until_us is not None:
            self._set_timer(until_us, task, task.ticket)
        self._leave(task)
        return not task.timed_out

    def give_way(self) -> None:
        """Let other ready tasks run first, as dice decide."""
        task = self.current
        if task is None:
            return
        if self.ending or task.gone:
            raise TaskEnded
        self._make_ready(task)
        self._leave(task)

    def _leave(self, task: Task) -> None:
        loop = _get_running_loop()
        if loop is not None:
            _set_running_loop(None)
        self._hub.switch()
        if self.ending or task.gone:
            raise TaskEnded
        if loop is not None:
            _set_running_loop(loop)
        if task.raises is not None:
            error, task.raises = task.raises, None
            raise error

    def fail(self, error: BaseException) -> BaseException:
        """Let the run end with an error, whoever catches it in the task. Returns the error."""
        self._failure = self._failure or error
        return error

    def at_free_lock(self) -> None:
        """A task is about to take a free lock: it may have to give way."""
        task = self.current
        if self._ready and task is not None and not task.calm and self.dice.random() < SWITCHES_AT_LOCKS:
            self.give_way()

    def has_woken(self) -> None:
        """The task has woken others, and its own state allows that they run: it may have to give way."""
        task = self.current
        if task is None or task.calm or self.ending or task.gone:
            return
        if self.dice.random() < SWITCHES_AT_WAKING:
            self.give_way()

    def wake(self, task: Task) -> None:
        """Make a parked task ready; others are ready already."""
        if task.parked and not task.gone:
            task.parked = False
            self._make_ready(task)

    def wait(self, until: Callable[[], bool], until_us: int | None, waits: str) -> bool:
        """Let the calling task wait until a condition holds, which is looked at after each step. Returns whether it holds."""
        if until():
            return True
        task = self.current
        if task is not None:
            self._conditions[task] = until
        try:
            self.park(waits, until_us)
        finally:
            if task is not None:
                self._conditions.pop(task, None)
        return until()

    def read_clock(self) -> int:
        """Return the time in µs for a task that asks for it."""
        self._reads += 1
        if self._reads > READS_AT_ONE_TIME:
            self.now_us += READ_US
        return self.now_us

    # ---- the run ----

    def run(self, main: Task) -> None:
        """Run tasks until `main` is done. Raises WorldStuck, WorldLimit, and what a step raises."""
        ready, random_index = self._ready, self.dice.random
        while not main.done:
            if not ready:
                self._move_time(main)
                continue
            n = len(ready)
            at = int(random_index() * n) if n > 1 else 0
            task = ready[at]
            ready[at] = ready[-1]
            ready.pop()
            if task.gone:
                continue
            self._step(task)
            if self._failure is not None:
                error, self._failure = self._failure, None
                raise error

    def _step(self, task: Task) -> None:
        self.steps += 1
        if self.steps > self._max_steps:
            raise WorldLimit(
                f"the run took {self._max_steps:,} steps until {self.now_us / 1000:g} ms of virtual time; {task.instance}/{task.name} is next, "
                f"at {task.where}; raise max_steps, or look for a loop that never waits"
            )
        self.trace.entries.append((self.now_us, task.instance, task.name, ""))
        if task.instance != self._inside:
            self.be_inside(task)
        carrier = task.carrier
        if carrier is None:
            task.carrier = carrier = self._free.pop() if self._free else greenlet(self._carry, self._hub)
            carrier.gr_context = Context()
            self.current = task
            carrier.switch(task)
        else:
            self.current = task
            carrier.switch()
        self.current = None
        if self._conditions:
            self._look_at_conditions()

    def be_inside(self, task: Task) -> None:
        """Let the state of user code be that of the task's instance."""
        if task.instance or task.number == MAIN:
            self._inside = task.instance
            self.enter(task.instance)

    def _carry(self, task: Task) -> None:
        """The body of a carrier: run one task after another."""
        carrier = getcurrent()
        if self._lines is not None:
            self._lines.begin()
        while True:
            try:
                task.run()
            except TaskEnded:
                pass
            except BaseException as error:  # noqa: BLE001 - the run fails with it
                task.error = error
                if not self.ending:
                    self._failure = error
            self._has_ended(task)
            if self.ending:
                return
            self._free.append(carrier)
            task = self._hub.switch()

    def _has_ended(self, task: Task) -> None:
        task.done, task.carrier = True, None
        self.current = None  # whoever waits for the end is woken, and the task gives way to nobody
        self.tasks.pop(task, None)
        if task.sentinel is not None:
            if task.sentinel.locked():  # a `Thread.join` that the world's end interrupts has released it
                task.sentinel.release()
            task.sentinel = None

    def _look_at_conditions(self) -> None:
        for task, until in self._conditions.items():  # a task leaves the table itself, in its next step
            if task.parked and not task.gone:
                if task.instance != self._inside:
                    self.be_inside(task)
                try:
                    holds = until()
                except BaseException as error:  # noqa: BLE001 - raised in the task that waits
                    task.raises, holds = error, True
                if holds:
                    self.wake(task)

    def _move_time(self, main: Task) -> None:
        """Nothing is ready: go to the next timer, and make ready what is due."""
        due = self._due
        while due:
            when_us, _, what, ticket = due[0]
            if isinstance(what, Task):
                if what.gone or not what.parked or what.ticket != ticket:
                    heapq.heappop(due)
                    continue
            elif what.cancelled:
                heapq.heappop(due)
                continue
            break
        else:
            raise WorldStuck(self._who_waits(main))
        if when_us > self._max_us:
            raise WorldLimit(
                f"the run is not over after {self._max_us / 1e6:g} s of virtual time; raise max_time, or look at what still waits: "
                f"{self._who_waits(main)}"
            )
        self.now_us = max(self.now_us, when_us)
        self._reads = 0
        while due and due[0][0] <= self.now_us:
            _, _, what, ticket = heapq.heappop(due)
            if isinstance(what, Step):
                if not what.cancelled:
                    what.cancelled = True
                    self.spawn(what.run, what.what, what.instance)
            elif what.parked and what.ticket == ticket and not what.gone:
                what.timed_out = True
                self.wake(what)

    def _who_waits(self, main: Task) -> str:
        lines = [
            f"{task.instance}/{task.name} waits for {task.waits or 'its turn'} at {task.where}"
            for task in self.tasks
            if not task.gone
        ]
        paused = f"; paused: {', '.join(self.paused)}" if self.paused else ""
        return (
            f"nothing is ready at {self.now_us / 1000:g} ms and no timer is set, so {main.name} never ends{paused}\n"
            + "\n".join(lines)
        )

    # ---- instances ----

    def mark_gone(self, instance: str) -> None:
        """No task of the instance runs again. The caller may be one of them: it must call `leave_if_gone` soon."""
        for task in list(self.tasks):
            if task.instance == instance:
                task.gone = True
        for _, _, what, _ in self._due:
            if isinstance(what, Step) and what.instance == instance:
                what.cancelled = True
        self.paused.pop(instance, None)
        if instance == self._inside:
            self._inside = None
        for task in list(self.tasks):
            if task.waits == A_LOCK:
                self.wake(task)  # the lock may be free now

    def leave_if_gone(self) -> None:
        """Does not return in a task whose instance has crashed."""
        current = self.current
        if current is not None and current.gone:
            self._hub.switch()
            raise TaskEnded

    def pause(self, instance: str) -> None:
        """No task of the instance runs until `resume`. The caller may be one of them."""
        held = self.paused.setdefault(instance, [])
        held += [task for task in self._ready if task.instance == instance]
        self._ready[:] = [task for task in self._ready if task.instance != instance]
        if self.current is not None and self.current.instance == instance:
            self.give_way()

    def resume(self, instance: str) -> None:
        """Let the tasks of a paused instance run."""
        self._ready += self.paused.pop(instance, [])

    # ---- the end ----

    def end(self) -> None:
        """End every task that is left, with TaskEnded where it waits. Nothing that it does afterwards can wait."""
        self.ending = True
        for task in list(self.tasks):
            self.current = task
            task.gone = False
            for _ in range(_ENDINGS):
                if task.carrier is None:
                    break
                task.carrier.throw(TaskEnded)
            self.tasks.pop(task, None)
        self.current = None
        for carrier in self._free:
            carrier.throw()
        self._free.clear()
        self._ready.clear()
        self._due.clear()
        self._conditions.clear()
