"""delay: emit each element a fixed time after it came. initial_delay: ask for the first element after a fixed time.

The marks of delay wait in its queue between the elements."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import In, Stage
from streamactors.engine.user_code import blame
from streamactors.stages.bases.marked_queue import MarkedQueue
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import plain_function, span_ms
from streamactors.stages.defaults import BACKPRESSURE
from streamactors.stages.rate.buffer import Buffer, BufferLogic


class Delay(Buffer[In]):
    """The stage of `Source.delay`."""

    def __init__(self, delay: Duration, buffer: int = 1_024, strategy: str = BACKPRESSURE) -> None:
        self.delay_ms = span_ms("delay", "delay", delay, zero=True)
        super().__init__(buffer, strategy, named="buffer")


class _DueQueue(MarkedQueue):
    """A MarkedQueue that knows when its elements are due."""

    __slots__ = ("_dues", "due_ms")

    def __init__(self) -> None:
        super().__init__()
        self.due_ms = 0.0  # of the next elements put
        self._dues: deque[tuple[float, int]] = deque()  # (time, number of elements), oldest first

    def put(self, chunk: list[object]) -> None:
        super().put(chunk)
        if chunk:
            self._dues.append((self.due_ms, len(chunk)))

    def take(self, n: int) -> list[object]:
        chunk = super().take(n)
        left = len(chunk)
        dues = self._dues
        while left:
            due_ms, count = dues.popleft()
            if count > left:
                dues.appendleft((due_ms, count - left))
                break
            left -= count
        return chunk

    def drop_tail(self, n: int) -> None:
        before = self.size
        super().drop_tail(n)
        left = before - self.size
        dues = self._dues
        while left:
            due_ms, count = dues.pop()
            if count > left:
                dues.append((due_ms, count - left))
                break
            left -= count

    def ripe(self, now_ms: float) -> int:
        """Return how many elements are due."""
        n = 0
        for due_ms, count in self._dues:
            if due_ms > now_ms:
                break
            n += count
        return n

    def next_due_ms(self) -> float:
        """Return when the oldest element is due."""
        return self._dues[0][0]


@logic_of(Delay)
class _DelayLogic(BufferLogic):
    stage: Delay[Any]
    queue: _DueQueue

    def __init__(self, stage: Delay[Any]) -> None:
        super().__init__(stage)
        self.queue = _DueQueue()

    def told_limit(self) -> str:
        delay_s = self.stage.delay_ms / 1000
        return f"holds each element for {delay_s:g} s" if delay_s else "holds each element for its own delay"

    def room(self) -> int:
        return self.stage.n - self.queue.size

    def accept(self, chunk: list[object]) -> None:
        self.queue.due_ms = self.interpreter.now_ms() + self.stage.delay_ms
        self.queue.put(chunk)
        self.hand_out()

    def hand_out(self) -> None:
        out, queue = self.out, self.queue
        self._gauge.reached(queue.size)
        now_ms = self.interpreter.now_ms()
        queue.push_out(min(out.asked, queue.ripe(now_ms)), out.push, out.mark)
        if queue.size and not self.is_timer_active("due"):
            wait_ms = queue.next_due_ms() - now_ms
            if wait_ms > 0:  # else it waits for demand
                self.schedule_once("due", wait_ms)

    def on_timer(self, key: object) -> None:
        self.on_pull(self.out)


class DelayWith(Delay[In]):
    """The stage of `Source.delay_with`."""

    def __init__(
        self, make: Callable[[], Callable[[Any], Duration]], buffer: int = 1_024, strategy: str = BACKPRESSURE
    ) -> None:
        self.make = plain_function("delay_with", make)
        super().__init__(0, buffer, strategy)


@logic_of(DelayWith)
class _DelayWithLogic(_DelayLogic):
    stage: DelayWith[Any]

    def on_start(self) -> None:
        self._delay_of = plain_function("delay_with: make()", self.stage.make())
        super().on_start()

    def accept(self, chunk: list[object]) -> None:
        now_ms = self.interpreter.now_ms()
        for element in chunk:
            try:
                delay_ms = span_ms("delay_with", "delay_of", self._delay_of(element), zero=True)
            except BaseException as error:
                blame(error, self.name, element, self._delay_of)
                raise
            self.queue.due_ms = now_ms + delay_ms
            self.queue.put([element])
        self.hand_out()


class InitialDelay(Stage[In, In]):
    """The stage of `Source.initial_delay`."""

    handling = EXACT

    def __init__(self, delay: Duration) -> None:
        self.delay_ms = span_ms("initial_delay", "delay", delay, zero=True)


@logic_of(InitialDelay)
class _InitialDelayLogic(PassingLogic):
    def __init__(self, stage: InitialDelay[Any]) -> None:
        super().__init__(stage)
        self._open = not stage.delay_ms

    def on_start(self) -> None:
        if not self._open:
            self.schedule_once("delay", self.stage.delay_ms)

    def on_pull(self, out: Connection) -> None:
        if self._open:
            self.in_.want(out.asked)

    def on_timer(self, key: object) -> None:
        self._open = True
        if self.out.asked:
            self.in_.want(self.out.asked)

    def snapshot_state(self) -> str:
        return "" if self._open else "waits for its delay to be over"
