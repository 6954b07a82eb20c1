"""delay: emit each element a fixed time after it came. Marks stand in the queue; exact."""

from __future__ import annotations

from collections import deque

from streamactors.clock import Duration
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT, EXACT_MEMORY, Handling
from streamactors.engine.stage import In, Stage
from streamactors.errors import BuildError
from streamactors.stages.buffer import BACKPRESSURE, STRATEGIES, BufferLogic
from streamactors.stages.checks import positive, span_ms
from streamactors.stages.marked_queue import MarkedQueue


class Delay(Stage[In, In]):
    """Emit each element `delay` after it came. Up to `buffer` elements wait; the strategy says what happens to one more (see Buffer).

    Emits when: an element has waited long enough.   Backpressures when: `buffer` elements wait (backpressure), else never.
    Completes when: upstream completes and all that waits has been emitted.   Cancels when: downstream cancels.
    A failure of upstream overtakes what waits.
    Marks: in the queue; exact. The strategies that drop remember: what they drop depends on timing.
    """

    handling: Handling = EXACT

    def __init__(self, delay: Duration, buffer: int = 1_024, strategy: str = BACKPRESSURE) -> None:
        self._delay_ms = span_ms("delay", "delay", delay, zero=True)
        self._n = positive("delay", "buffer", buffer)
        if strategy not in STRATEGIES:
            raise BuildError(f"delay: strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
        self._strategy = strategy
        if strategy.startswith("drop"):
            self.handling = EXACT_MEMORY

    def logic(self) -> Logic:
        return _DelayLogic(self._delay_ms, self._n, self._strategy)


class _DueQueue(MarkedQueue):
    """A MarkedQueue that knows when its elements are due."""

    __slots__ = ("_dues", "due_ms")

    def __init__(self) -> None:
        super().__init__()
        self.due_ms = 0.0  # of what is put next
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


class _DelayLogic(BufferLogic):
    queue: _DueQueue

    def __init__(self, delay_ms: float, n: int, strategy: str) -> None:
        super().__init__(n, strategy)
        self.queue = _DueQueue()
        self._delay_ms = delay_ms

    def room(self) -> int:
        return self.n - self.queue.size

    def accept(self, chunk: list[object]) -> None:
        self.queue.due_ms = self.interpreter.now_ms() + self._delay_ms
        self.queue.put(chunk)
        self.hand_out()

    def hand_out(self) -> None:
        out, queue = self.out, self.queue
        now_ms = self.interpreter.now_ms()
        queue.push_out(min(out.asked, queue.ripe(now_ms)), out.push, out.mark)
        if queue.size and not self.is_timer_active("due"):
            wait_ms = queue.next_due_ms() - now_ms
            if wait_ms > 0:  # else it waits for demand
                self.schedule_once("due", wait_ms)

    def on_timer(self, key: object) -> None:
        self.on_pull(self.out)
