"""map_parallel: one CPU-bound function in several worker processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from streamactors.actors.workers.job import CannotGo, job_of
from streamactors.codec import CodecError
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import BLURS, EXACT, Epochs, Handling, Mark
from streamactors.engine.stage import In, Out, Stage
from streamactors.engine.user_code import user_line
from streamactors.engine.workers.wire import encodable_prefix, refused
from streamactors.errors import BuildError
from streamactors.stages.asynchronous.parallel_pool import ParallelPool, Task
from streamactors.stages.bases.emitting import keep
from streamactors.stages.checks import plain_function, positive
from streamactors.tracing import switch

_SERVE: Final = "streamactors.stages.asynchronous.parallel_child:serve"


class MapParallel(Stage[In, Out]):
    """The stage of `Source.map_parallel`."""

    name = "map_parallel"

    def __init__(self, fn: Callable[[Any], Any], processes: int | None = None, ordered: bool = True) -> None:
        self.fn = plain_function("map_parallel", fn, "map_async")
        self.processes = _cores() if processes is None else positive("map_parallel", "processes", processes)
        self.ordered = ordered
        self.handling: Handling = EXACT if ordered else BLURS


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@logic_of(MapParallel)
class _ParallelLogic(FlowLogic):
    _completing = False
    _refused: CodecError | None = None

    def __init__(self, stage: MapParallel[Any, Any]) -> None:
        super().__init__(stage)
        self._queue: deque[Any] = deque()  # tasks and marks; unordered: tasks only
        self._epochs = Epochs()

    def on_start(self) -> None:
        stage: MapParallel[Any, Any] = self.stage
        try:
            traces = None if switch.installed is None else switch.installed.for_workers()
            job = job_of(_SERVE, stage.fn, self.attributes.decider, self.name, traces)
        except CannotGo as error:
            line = user_line(Exception(), stage.fn)
            raise BuildError(
                f"stage '{self.name}' cannot be sent to a worker process: {error.reason}"
                + (f" (its function is at {line})" if line else "")
            ) from error
        self._pool = ParallelPool(self, job, stage.processes, self._move_on, self.fail_stage)

    def on_pull(self, out: Connection) -> None:
        self._move_on()

    def on_push(self, in_: Connection) -> None:
        pool = self._pool
        while pool.room and self._waiting < pool.task_size and (elements := in_.grab(pool.task_size)):
            try:
                self._enter(pool.start(elements))
            except CodecError as error:
                before = encodable_prefix(elements)
                if before:
                    self._enter(pool.start(before))
                producer = getattr(in_.producer, "name", "the stage before it")
                self._refused = refused(error, f"elements of stage '{producer}'", "enter")
                self._completing = True
                in_.cancel(self._refused)
        self._move_on()

    def _enter(self, task: Task) -> None:
        if not self.stage.ordered:
            task.token = self._epochs.enter()
        self._queue.append(task)

    @property
    def _waiting(self) -> int:
        """The number of results that wait for demand."""
        return sum(len(task.results) for task in self._queue if type(task) is Task and task.done)

    def _move_on(self) -> None:
        failure = self._emit()
        if failure is not None:
            self.fail_stage(failure)
        elif self._completing and not self._queue:
            if self._refused is not None:
                self.fail_stage(self._refused)
            else:
                self.complete_stage()
        elif not self._completing and self._pool.room and self._waiting < self._pool.task_size:
            self.in_.want(self._pool.room * self._pool.task_size)

    def _emit(self) -> BaseException | None:
        """Push what may leave; return the failure that has come to the front."""
        return self._emit_in_order() if self.stage.ordered else self._emit_as_they_come()

    def _emit_in_order(self) -> BaseException | None:
        queue, out = self._queue, self.out
        while queue:
            head = queue[0]
            if type(head) is not Task:
                out.mark(head)
            elif not head.done or not self._push(head):
                return None
            elif head.error is not None:
                return head.error
            queue.popleft()
        return None

    def _emit_as_they_come(self) -> BaseException | None:
        for task in [task for task in self._queue if task.done]:
            if not self._push(task):
                return None
            if task.error is not None:
                return task.error  # type: ignore[no-any-return]
            self._queue.remove(task)
            for mark in self._epochs.leave(task.token):
                self.out.mark(mark)
        return None

    def _push(self, task: Task) -> bool:
        """Push the results of a task as far as there is demand; return whether all have left."""
        n = self.out.asked
        if task.stems_from is not None:
            self.interpreter.work_on(task.stems_from)  # a failure, or results in a graph inside another stage
        if task.results and n:
            self.out.push(task.results[:n])
            task.results = task.results[n:]
        return not task.results

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if not self.stage.ordered:
            for ripe in self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark):
                self.out.mark(ripe)
        elif self._queue:
            keep(self._queue, mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        self._move_on()

    def on_stop(self) -> None:
        pool = getattr(self, "_pool", None)
        if pool is not None:
            pool.stop()

    def snapshot_state(self) -> str:
        tasks = sum(type(task) is Task and not task.done for task in self._queue)
        return f"{tasks} tasks of about {self._pool.task_size} elements in {self.stage.processes} processes"
