"""The worker processes of one `map_parallel`: gives them tasks, and starts another process for one that has died.

Owner: the stage's island. Links call on their dispatcher's thread, and their messages are posted to the island. A process has at most two tasks, so that it
begins the second while the results of the first are on their way."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from streamactors.actors.dispatching.timing_wheel import Timer
from streamactors.actors.workers.chunks import chunk_of, decode, encode
from streamactors.actors.workers.frames import Buffer, Frame
from streamactors.actors.workers.link import WorkerLink
from streamactors.codec import dumps
from streamactors.engine.logic import Logic
from streamactors.engine.workers.remote_island import DISPATCHER, MOST_CRASHES
from streamactors.engine.workers.wire import CANNOT_BEGIN, frame_of, made_again
from streamactors.errors import StageFailed, WorkerDied
from streamactors.stages.asynchronous.parallel_child import CONTEXT, END, ERROR_LENGTH, FAILED, RESULTS, TASK
from streamactors.tracing import switch

TASKS_AT_ONCE: Final = 2
TARGET_S: Final = 0.005
"""How long a task should take: long beside its way to the process and back, short beside a user's patience."""
LONGEST_TASK: Final = 1_024
MAY_END_MS: Final = 5_000
"""How long a process may take to export its spans after the last task."""


class Task:
    """Some elements, and their results once `done`. `stems_from`: in a traced run, the sampled records that the elements stem from; `context`: of one alone."""

    __slots__ = ("context", "done", "elements", "error", "number", "results", "stems_from", "token")

    def __init__(
        self, elements: list[Any], number: int, stems_from: Any = None, context: tuple[bytes, str] | None = None
    ) -> None:
        self.elements = elements
        self.number = number
        self.stems_from = stems_from
        self.context = context
        self.results: list[Any] = []
        self.error: BaseException | None = None
        self.done = False
        self.token = 0


def _send(link: WorkerLink, task: Task, buffers: list[Buffer]) -> None:
    if task.context is not None:
        link.send(frame_of(CONTEXT, [dumps(list(task.context))]))
    link.send(frame_of(TASK, buffers, len(task.elements), task.number))


class _Process:
    """One worker process, or the one after it."""

    __slots__ = ("crashes", "link", "tasks")

    def __init__(self) -> None:
        self.link: WorkerLink | None = None
        self.tasks: deque[Task] = deque()  # in the order in which it answers
        self.crashes = 0


class ParallelPool:
    """`on_done()` is called on the island when tasks are done; `on_failed(error)` when the processes cannot continue."""

    def __init__(
        self,
        logic: Logic,
        job: bytes,
        processes: int,
        on_done: Callable[[], None],
        on_failed: Callable[[BaseException], None],
    ) -> None:
        run = logic.interpreter.island.run
        self._logic = logic
        self._job = job
        self._on_done = on_done
        self._on_failed = on_failed
        self._again = run.marks_active
        self._dispatcher = run.system.dispatcher(DISPATCHER)
        self._hook = run.system.on_shutdown(self._end_with_system)
        self._processes = [_Process() for _ in range(processes)]
        self._number = 0
        self._stopped = False
        self._traced = run.trace is not None
        self._killer: Timer | None = None
        self._most = processes * TASKS_AT_ONCE
        self.task_size = 1
        for process in self._processes:
            self._start(process)

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def room(self) -> int:
        """The number of tasks that may be started now."""
        return self._most - sum(len(process.tasks) for process in self._processes)

    def start(self, elements: list[Any]) -> Task:
        """Give some elements to the process that has the fewest tasks. Raises CodecError for elements that cannot be sent."""
        buffers = encode(elements)
        self._number += 1
        context = None if switch.installed is None else switch.installed.told_current()
        task = Task(elements, self._number, self._logic.interpreter.working_on, context)
        process = min(self._processes, key=lambda process: len(process.tasks))
        process.tasks.append(task)
        if process.link is not None:
            _send(process.link, task, buffers)
        return task

    def stop(self) -> None:
        """End the processes. One that traces has some seconds to export its spans."""
        self._stopped = True
        links = [process.link for process in self._processes if process.link is not None]
        if not self._traced or not links:
            if self._hook is not None:
                self._hook.cancel()
            for link in links:
                link.kill()
            return
        for link in links:
            link.send(frame_of(END, []))

        def kill_all() -> None:
            for link in links:
                link.kill()

        self._killer = self._dispatcher.call_later(MAY_END_MS, kill_all)

    def _frames(self, arrived: tuple[_Process, list[Frame]]) -> None:
        process, frames = arrived
        for frame in frames:
            if frame.kind == CANNOT_BEGIN:
                reason = bytes(frame.payload).decode(errors="replace")
                self._on_failed(
                    StageFailed(f"the worker process of stage '{self._logic.name}' could not begin: {reason}")
                )
                return
            task = process.tasks.popleft()
            assert task.number == frame.number
            process.crashes = 0
            if frame.kind == FAILED:
                payload = frame.payload
                (length,) = ERROR_LENGTH.unpack_from(payload)
                rest = payload[ERROR_LENGTH.size :]
                task.error = made_again(rest[:length])
                task.results = decode(rest[length:])
            else:
                assert frame.kind == RESULTS
                self._resize(len(task.elements), frame.count / 1e6)
                task.results = chunk_of(frame)
            task.done = True
        self._on_done()

    def _resize(self, n: int, seconds: float) -> None:
        fitting = int(TARGET_S / max(seconds / n, 1e-7))
        self.task_size = max(1, min(fitting, self.task_size * 2, LONGEST_TASK))

    def _gone(self, ended: tuple[_Process, int, str]) -> None:
        process, pid, how = ended
        if self._stopped:
            return
        process.link = None
        process.crashes += 1
        name = self._logic.name
        if not self._again:
            why = (
                "its elements were not given to another, because nothing in this run reads marks, so the calls may not be repeated "
                "(docs/cores.md)"
            )
        elif process.crashes > MOST_CRASHES:
            why = f"it died {process.crashes} times in a row at the same elements, so they are likely the cause"
        else:
            self._start(process)
            return
        self._on_failed(WorkerDied(f"worker process {pid} of stage '{name}' {how}; {why}"))

    def _linked(self, started: tuple[_Process, WorkerLink]) -> None:
        """A process has started: send what waits for it."""
        process, link = started
        process.link = link
        if self._stopped:
            link.kill()
            return
        for task in process.tasks:
            _send(link, task, encode(task.elements))

    # ── on the dispatcher ─────────────────────────────────────────────────────────────────────────────────────────

    def _start(self, process: _Process) -> None:
        post, logic = self._logic.interpreter.post, self._logic

        def start() -> None:
            if self._stopped:
                return
            try:
                link = WorkerLink(
                    self._dispatcher,
                    self._job,
                    lambda frames: post(logic, self._frames, (process, frames)),
                    lambda pid, how: self._on_gone(process, pid, how),
                )
            except Exception as error:  # noqa: BLE001  # no memory, no descriptors, no processes left
                post(logic, self._on_failed, WorkerDied(f"no worker process for stage '{logic.name}': {error}"))
                return
            if logic.stopped:
                link.kill()
            else:
                post(logic, self._linked, (process, link))

        self._dispatcher.execute(start)

    def _on_gone(self, process: _Process, pid: int, how: str) -> None:
        if not self._stopped:
            self._logic.interpreter.post(self._logic, self._gone, (process, pid, how))
            return
        process.link = None
        if any(each.link is not None for each in self._processes):
            return
        if self._hook is not None:
            self._hook.cancel()
        if self._killer is not None:
            self._killer.cancel()

    def _end_with_system(self) -> None:
        self._stopped = True
        for process in self._processes:
            if process.link is not None:
                with suppress(Exception):
                    process.link.end_now()
