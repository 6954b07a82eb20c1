"""Redelivery: a restarted flow or sink gets again what its predecessor had taken in and not acknowledged.

Every chunk that goes into the part is followed by a mark of its own. The chunk is kept until its mark has come out of the flow, or is done at the sinks
of the part; a new instance gets the kept chunks first. The marks of the run around the part wait until everything before them is acknowledged.

Owner: the stage, in whose island the part runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

from streamactors.actors.futures import StreamFuture
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_right
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Mark, Needs, PositionMark, merge_newer
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import AbruptTermination, BufferOverflow
from streamactors.gauges import Gauge
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.control.restart_logic import RestartLogic
from streamactors.stages.restart_settings import RestartSettings

MOST_KEPT: Final = 1_000_000
"""The most elements that are kept; a sink that acknowledges only at its end (fold, to_list) has all elements kept."""


class RestartedValue(StreamFuture[Any]):
    """What RestartFlow and RestartSink with `redeliver=True` materialize, the same across restarts.

    As a future it ends when the part has ended and is not restarted: with the result of the last instance's future, None if an instance materializes
    none, or with the error. `current` is the value that the running instance has materialized, None during a back-off."""

    def __init__(self) -> None:
        super().__init__("the restarted part")
        self.current: Any = None
        self.restarts = 0


class Redelivered(Stage[Any, Any]):
    """The first stage of an instance. It marks its chunks itself, and its marks mean nothing to the run around the part."""

    handling = EXACT

    def __init__(self, what: str) -> None:
        self.traits = StageTraits(
            emits_marks=True, reads_marks=True, needs=Needs(what), emitted_by=lambda run: (self, 0)
        )

    def logic(self) -> Logic:
        return PassingLogic(self)


class RedeliveringLogic(RestartLogic):
    """The logic of RestartFlow and RestartSink with `redeliver=True`."""

    replaces_inside = True
    gives_left = False  # the chunks that are kept have it
    _last: Any = None  # what the instance that ended last had materialized

    def __init__(
        self, settings: RestartSettings, make: Callable[[], Module], only_on_failures: bool, what: str
    ) -> None:
        super().__init__(settings, make, only_on_failures)
        self.value = RestartedValue()
        self._what = what
        self._key: Any = None
        self._instance = 0
        self._started = 0
        self._kept: deque[tuple[list[Any], int]] = deque()  # chunks and their numbers
        self._size = 0  # elements in them
        self._gauge = Gauge(f"{what}(redeliver=True): elements that are not acknowledged", MOST_KEPT)
        self._again: deque[tuple[list[Any], int]] = deque()  # what the running instance has to get first
        self._number = 0
        self._done = 0
        self._marks: deque[tuple[int, Mark]] = deque()  # of the run; each waits for the chunk of that number
        self._upstream_over = False

    def on_start(self) -> None:
        self.keep_going = self._out is None  # a sink has work to do after its inlet has completed
        super().on_start()

    # ── instances ─────────────────────────────────────────────────────────────────────────────────────────────────

    def run_inside(self, module: Module) -> tuple[list[Connection], list[Connection]]:
        """Start an instance, which gets the kept chunks first."""
        entry = Redelivered(f"{self._what}(redeliver=True)")
        self._key = (entry, 0)
        self._instance += 1
        self._again = deque(self._kept)
        instance = self._instance
        self.value.restarts = self._started
        self._started += 1
        if self._out is None:
            done = self.async_callback(self._on_done)
            self.interpreter.island.run.progress.listen(entry, lambda moved: done((instance, moved)))
        inputs, outputs, value = attach(self, Joined(StageModule(entry), module, keep_right))
        self.value.current = value
        if self._out is None and isinstance(value, Future):
            ended = self.async_callback(self._on_value)
            value.add_done_callback(lambda future: ended((instance, future)))
        return inputs, outputs

    def _is_over(self) -> bool:
        return False  # `_ended` looks at what is kept

    def _ended(self, error: BaseException | None) -> None:
        self._instance += 1  # what the instance still reports is late
        if self._key is not None:
            self.interpreter.island.run.progress.source_gone(self._key[0])
        last, self.value.current = self.value.current, None
        if error is None and self._upstream_over and not self._kept:
            self._finishing = True
        self._last = last
        super()._ended(error)

    def _on_value(self, ended: tuple[int, Future[Any]]) -> None:
        """The future of a sink's instance has ended."""
        instance, future = ended
        if instance == self._instance:  # a cancellation may not arrive: `into` may have completed just before
            self._ended(AbruptTermination("cancelled") if future.cancelled() else future.exception())

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if out is self._into and self._in is not None:
            self._feed()
        else:
            super().on_pull(out)

    def _feed(self) -> None:
        """Give the instance what was kept, then new elements."""
        into, in_ = self._into, self._in
        if into is None or in_ is None:
            return
        while self._again and into.can_push:
            chunk, number = self._again[0]
            n = into.asked
            if len(chunk) > n:
                into.push(chunk[:n])
                self._again[0] = (chunk[n:], number)
                return
            self._again.popleft()
            into.push(chunk)
            into.mark({self._key: (1, number)})
        if not self._again:
            if not self._upstream_over:
                in_.want(into.asked)
            elif self._out is not None or isinstance(self.value.current, Future):
                into.complete()
            elif not self._kept:
                into.complete()
                self.complete_stage()

    def on_push(self, in_: Connection) -> None:
        if in_ is not self._in:
            super().on_push(in_)
            return
        into = self._into
        if into is None or self._again or not into.can_push:
            return  # shown again by the next `want`
        chunk = in_.grab(into.asked)
        self._number += 1
        self._kept.append((chunk, self._number))
        self._size += len(chunk)
        self._gauge.reached(min(self._size, MOST_KEPT))  # one more fails the stage
        if self._size > MOST_KEPT:
            raise BufferOverflow(
                f"{self._what}(redeliver=True) keeps {self._size} elements that the part has not acknowledged; end the run of marks earlier, "
                "for example with a sink that is done with each element (foreach, a producer, batches)"
            )
        into.push(chunk)
        into.mark({self._key: (1, self._number)})
        in_.want(into.asked)

    # ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is self._in:
            if self._done == self._number:
                self._pass(mark)
            else:
                self._wait(mark)
        elif in_ is self._from and isinstance(mark, dict) and self._key in mark:
            self._acknowledged(mark[self._key][1])

    def _wait(self, mark: Mark) -> None:
        last = self._marks[-1] if self._marks else None
        if isinstance(mark, dict) and last is not None and last[0] == self._number and isinstance(last[1], dict):
            merge_newer(last[1], mark)
        else:
            self._marks.append((self._number, mark.copy() if isinstance(mark, dict) else mark))

    def _on_done(self, reported: tuple[int, PositionMark]) -> None:
        """The sinks of an instance have done a mark."""
        instance, moved = reported
        if instance == self._instance and self._key in moved:
            self._acknowledged(moved[self._key][1])
            if self._upstream_over:
                self._feed()

    def _acknowledged(self, number: int) -> None:
        self._worked = True
        self._done = max(self._done, number)
        while self._kept and self._kept[0][1] <= number:
            self._size -= len(self._kept.popleft()[0])
        while self._marks and self._marks[0][0] <= number:
            self._pass(self._marks.popleft()[1])

    def _pass(self, mark: Mark) -> None:
        if self._out is not None:
            self._out.mark(mark)
        else:
            self.interpreter.island.run.progress.done(self, mark)

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_complete(self, in_: Connection) -> None:
        if in_ is not self._in:
            super().on_complete(in_)
            return
        self._upstream_over = True
        if self._into is not None:
            self._feed()
        elif not self._kept and self._waiting:
            self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        super().on_fail(in_, error)
        if in_ is self._in and self._out is None and not isinstance(self.value.current, Future):
            self.fail_stage(error)

    def complete_stage(self) -> None:
        super().complete_stage()
        run = self.interpreter.island.run
        if self._out is None:
            run.progress.sink_ended(self)
        last = self.value.current if self.value.current is not None else self._last
        if isinstance(last, Future):
            last.add_done_callback(self._settle)
        else:
            self.value.try_complete(None)

    def _settle(self, last: Future[Any]) -> None:
        error = None if last.cancelled() else last.exception()
        if error is not None:
            self.value.try_fail(error)
        else:
            self.value.try_complete(None if last.cancelled() else last.result())

    def fail_stage(self, error: BaseException) -> None:
        super().fail_stage(error)
        self.value.try_fail(error)

    def on_stop(self) -> None:
        if self.value.current is None and not self.value.done() and not isinstance(self._last, Future):
            self.value.try_complete(None)

    def snapshot_state(self) -> str:
        return f"{super().snapshot_state()}, keeps {self._size} elements"
