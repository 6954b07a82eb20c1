"""AlsoTo and DivertTo: fan-outs whose side sinks come first, so that where chunks are cut changes neither results nor the end.

One chunk at a time travels through the sides. Its elements reach the main output when the sides have taken them, and the next chunk
follows when nothing of this one is on its way through the sides. When a side cancels or fails within the chunk, the main output gets
the elements that came before. A failure of upstream waits in the same order. A side that keeps elements (a throttle, an asynchronous
call, another island) has taken them as far as this stage can know.

Owner: the island. Cost per chunk: one visit of the main connection for each stage of the longest side."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from types import CoroutineType
from typing import Any, Final

from streamactors.engine.coroutine_results import coroutine_refused
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.island.connection import COMPLETED, Completed, Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import Mark
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import failure_of
from streamactors.stages.bases.marked_queue import MarkedQueue
from streamactors.stages.checks import plain_function
from streamactors.stages.junctions.fan_out import Broadcast, FanOutLogic, Partition
from streamactors.stages.junctions.side_path import SidePath

MOST_ROUNDS: Final = 4_096
"""How often a chunk waits for a side that is never done with it, such as one with an endless `map_concat`."""


SHORT: Final = 128
"""Chunks up to this length are joined with the next ones: a chunk that travels through the sides costs about as much as it visits stages."""

NOTHING: Final[list[Any]] = []


class AlsoTo(Broadcast):
    """A broadcast to the stream (output 0) and to side sinks."""

    traits = StageTraits(has_sides=True)

    def __init__(self, sides: int) -> None:
        super().__init__(1 + sides, eager_cancel=True)


class DivertTo(Partition):
    """A partition into the stream (output 0) and a side sink, which gets the elements for which `when` is true."""

    traits = StageTraits(has_sides=True)

    def __init__(self, when: Callable[[Any], Any]) -> None:
        plain_function("divert_to", when)

        def side(element: Any) -> int:
            answer = when(element)
            if type(answer) is CoroutineType:
                raise coroutine_refused(answer, "divert_to")
            return 1 if answer else 0

        super().__init__(2, side, eager_cancel=True)


class SidesFirstLogic(FanOutLogic):
    """Base of both. Subclasses override `wanted` and `send`."""

    _travelling = 0  # elements of the chunk that was pushed to the sides last
    _landed = 0  # elements of it that have left through the main output
    _rounds = 0
    _cancelled: BaseException | None = None  # the cause of the first side that has cancelled
    _news = False  # a mark waits, a side has cancelled or upstream has ended
    _sides_left = 0  # side sinks that have not ended
    _side_failure: BaseException | None = None
    _end: Completed | BaseException | None = None  # how upstream has ended, or the error of the user's function

    def bind(self) -> None:
        super().bind()
        self.main, *self.sides = self.outlets
        self._queue = MarkedQueue()  # from upstream
        self._kept = NOTHING  # the elements for the main output that wait for the sides

    def on_start(self) -> None:
        self._paths = [SidePath(side) for side in self.sides]
        self._counted = all(path.counted() for path in self._paths)
        self._connections = [each for path in self._paths for each in path.connections]

    # ── for subclasses ────────────────────────────────────────────────────────────────────────────────────────────

    def wanted(self, main: int) -> int:
        """Return how many elements the outputs ask for; the main output asks for `main`."""
        raise NotImplementedError  # pragma: no cover

    def send(self) -> bool:
        """Push a chunk of the queue to the sides, or elements to the main output; False when the outputs do not ask for it."""
        raise NotImplementedError  # pragma: no cover

    def kept_before(self, passed: int) -> int:
        """Return how many of the kept elements precede whatever of the travelling chunk has not passed the sides."""
        return passed

    # ── a round ───────────────────────────────────────────────────────────────────────────────────────────────────

    def on_pull(self, out: Connection) -> None:
        if self._travelling and (out is not self.main or not self._land()):
            return
        if self._news or self._queue.size:
            self._turn()
        else:
            self._state_want()

    def on_push(self, in_: Connection) -> None:
        self._queue.put(in_.grab(in_.ready))  # all that is shown: what stays in the inlet is lost when upstream fails
        if self._travelling:
            self._state_want()
        else:
            self._turn()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self._travelling or self._queue:
            self._queue.put_mark(mark)
            self._news = True
        else:
            super().on_mark(in_, mark)

    def travel(self, n: int, kept: list[Any]) -> None:
        """`n` elements have been pushed to the sides, and `kept` waits for them."""
        self._travelling, self._kept = n, kept
        self._rounds = 0
        self.main.again()

    def _turn(self) -> None:
        """Nothing travels: send the next chunk, or end."""
        if self._cancelled is not None:
            self.cancel_stage(self._failure_of_side() or self._cancelled)
            return
        queue = self._queue
        for mark in queue.marks_in_front():
            super().on_mark(self.in_, mark)
        sent = bool(queue.size) and self.send()
        if sent and queue and not self._travelling:
            self.main.again()
        self._state_want()
        if self._end is None:
            self._news = bool(queue)
        elif not self._travelling and (not queue or not (sent or self._end is COMPLETED)):
            self._finish_as_upstream()

    def _on_its_way(self) -> bool:
        """True while an element of the chunk, or the news that a stage has cancelled, is in the interpreter's queue."""
        for each in self._connections:
            if each.queued and (each.ready or each.cancel_due):
                self._rounds += 1
                return self._rounds < MOST_ROUNDS
        return False

    def _land(self) -> bool:
        """Push what the sides have taken; True when nothing is on its way through them any more."""
        on_its_way = self._on_its_way()
        kept, landed = self._kept, self._landed
        if on_its_way or self._cancelled is not None:
            n = self._travelling
            passed = min([path.passed(n) for path in self._paths])
            if passed == n - 1 and not on_its_way and self._recovered():
                self._cancelled = None
                passed = n
            to = self.kept_before(passed)
        else:
            to = len(kept)
        if to > landed:
            self.main.push(kept if to - landed == len(kept) else kept[landed:to])
            self._landed = to
        if on_its_way:
            self.main.again()
            return False
        self._travelling = self._landed = 0
        self._kept = NOTHING
        return True

    def _state_want(self) -> None:
        if self._end is None:
            wanted = self.wanted(self.main.asked - len(self._kept) + self._landed) - self._queue.size
            if wanted > 0:
                in_ = self.in_
                in_.want(max(wanted, in_.due))

    def _turn_unless_travelling(self) -> None:
        if not self._travelling:  # else it follows when the chunk has landed
            self._turn()

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        if out is self.main:
            self.cancel_stage(cause)
        else:
            self._cancelled = self._cancelled or cause
            self._news = True
            self._turn_unless_travelling()

    def on_complete(self, in_: Connection) -> None:
        self._end = COMPLETED
        self._news = True
        self._turn_unless_travelling()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._end = error
        self._news = True
        self._turn_unless_travelling()

    def fail_in_turn(self, error: BaseException) -> None:
        """The user's function has raised: fail when the elements before have left."""
        self._end = error
        self._news = True
        self._queue = MarkedQueue()
        self.in_.cancel(error)

    def _finish_as_upstream(self) -> None:
        if self._end is COMPLETED:
            for side in self.sides:
                side.complete()
            self._complete_after_sides()
        else:
            self.fail_stage(self._end)  # type: ignore[arg-type]  # not completed, so an error

    def wait_for_side_sinks(self, sinks: list[Logic]) -> None:
        self._sides_left = len(sinks)
        ended = self.async_callback(self._side_ended).invoke
        for sink in sinks:
            sink.when_stopped = ended

    def _side_ended(self, failure: BaseException | None) -> None:
        self._sides_left -= 1
        self._side_failure = self._side_failure or failure
        if self._end is COMPLETED and not self._travelling and not self._queue:
            self._complete_after_sides()

    def _complete_after_sides(self) -> None:
        if self._side_failure is not None:
            self.cancel_stage(self._side_failure)
        elif not self._sides_left:
            self.complete_stage()

    def _recovered(self) -> bool:
        """True when a side has failed at the last element of the stream, and a later stage of it has recovered."""
        return (
            self._end is COMPLETED
            and not self._queue.size
            and not isinstance(self._cancelled, NonFailureCancellation)
            and all(path.connections[-1].consumer.failure is None for path in self._paths)
        )

    def _failure_of_side(self) -> BaseException | None:
        for path in self._paths:
            failure = path.failure()
            if failure is not None:
                return failure
        return None

    def snapshot_state(self) -> str:
        return f"{self._travelling} elements on their way through the sides" if self._travelling else ""


@logic_of(AlsoTo)
class _AlsoToLogic(SidesFirstLogic):
    def wanted(self, main: int) -> int:
        for side in self.sides:
            if side.asked < main:
                main = side.asked
        return main

    def on_push(self, in_: Connection) -> None:
        if self._travelling or self._news or self._queue.size:
            super().on_push(in_)
            return
        chunk = in_.grab(in_.ready)
        if chunk:
            self._send(chunk)
            self._state_want()

    def send(self) -> bool:
        queue = self._queue
        wanted = self.wanted(self.main.asked)
        chunk = queue.take(wanted)
        if not chunk:
            return False
        if queue.size and len(chunk) <= SHORT and self._counted:
            chunk = chunk.copy()
            while len(chunk) <= SHORT and (following := queue.take(wanted - len(chunk))):
                chunk += following
        self._send(chunk)
        return True

    def _send(self, chunk: list[Any]) -> None:
        for side in self.sides:
            side.push(chunk)
        self.travel(len(chunk), chunk)


@logic_of(DivertTo)
class _DivertToLogic(SidesFirstLogic):
    _index: int | None = None  # the output of the first element of the queue, if that output did not ask for it
    _before: list[int]  # for each kept element, the number of elements of the travelling chunk before it

    def on_start(self) -> None:
        super().on_start()
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)

    def wanted(self, main: int) -> int:
        if self._index is not None:
            return 0
        return min(min((asked for asked in (main, self.sides[0].asked) if asked), default=0), self._pace.window)

    def kept_before(self, passed: int) -> int:
        return bisect_right(self._before, passed)

    def send(self) -> bool:
        kept: list[Any] = []
        diverted: list[Any] = []
        before: list[int] = []
        main_asked, side_asked = self.main.asked, self.sides[0].asked
        failure: BaseException | None = None
        fn, pace = self.stage.fn, self._pace
        chunk = self._queue.take(pace.limit)
        feed: Any = iter(chunk)
        back = 0
        stop = pace.begin()
        for element in feed:
            index, self._index = self._index, None
            if index is None:
                try:
                    index = fn(element)
                except BaseException as error:  # noqa: BLE001  # the user's function
                    failure = failure_of(self, error, element, fn)
                    if failure is not None:
                        break
                    continue
            if (side_asked if index else main_asked) == 0:
                self._index = index
                back = 1
                break
            if index:
                side_asked -= 1
                diverted.append(element)
            else:
                main_asked -= 1
                kept.append(element)
                before.append(len(diverted))
            if stop:
                break
        back += feed.__length_hint__()
        pace.end(len(chunk) - back)
        if back:
            self._queue.put_back(chunk[len(chunk) - back :])
        if diverted:
            self._before = before
            self.sides[0].push(diverted)
            self.travel(len(diverted), kept)
        elif kept:
            self.main.push(kept)
        if failure is not None:
            self.fail_in_turn(failure)
        return bool(back < len(chunk))
