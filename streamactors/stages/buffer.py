"""Operators that decouple the speeds of upstream and downstream by a queue: buffer, detach.

Marks stand in the queue between the elements; where elements are dropped the marks stay, for what was dropped on purpose is done.

A buffer that drops passes on what downstream asks for and keeps the rest as far as it has room. When it is full it asks for one more
element only when its island has nothing else to do: so a consumer in the same island that is just as fast loses nothing."""

from __future__ import annotations

from typing import Any

from streamactors.engine.connection import Connection
from streamactors.engine.logic import FlowLogic, Logic
from streamactors.engine.marks import EXACT, EXACT_MEMORY, Handling, Mark
from streamactors.engine.stage import In, Stage
from streamactors.errors import BufferOverflow, BuildError
from streamactors.stages.checks import positive
from streamactors.stages.marked_queue import MarkedQueue

BACKPRESSURE = "backpressure"
STRATEGIES = (BACKPRESSURE, "drop_head", "drop_tail", "drop_buffer", "drop_new", "fail")


class Buffer(Stage[In, In]):
    """Keep up to n elements for downstream. When n are kept and another comes, the strategy says what happens:

    backpressure: it does not come, upstream waits.   drop_head: the oldest kept is dropped.   drop_tail: the youngest kept is.
    drop_buffer: all that are kept are dropped.       drop_new: the new one is.                fail: the stream fails (BufferOverflow).

    Emits when: downstream asks and an element is kept or comes.
    Backpressures when: n are kept (backpressure), else never.
    Completes when: upstream completes and all that is kept has been emitted.   Cancels when: downstream cancels.
    A failure of upstream overtakes what is kept.
    Marks: in the queue; exact. The strategies that drop remember: what they drop depends on timing.
    """

    handling: Handling = EXACT

    def __init__(self, n: int, strategy: str = BACKPRESSURE) -> None:
        self._n = positive("buffer", "n", n)
        if strategy not in STRATEGIES:
            raise BuildError(f"buffer: strategy must be one of {', '.join(STRATEGIES)}, got {strategy!r}")
        self._strategy = strategy
        if strategy.startswith("drop"):
            self.handling = EXACT_MEMORY

    def logic(self) -> Logic:
        return BufferLogic(self._n, self._strategy)


class Detach(Buffer[In]):
    """Let upstream be one element ahead of downstream. Cycles need it: it asks before it is asked.

    Emits when: downstream asks and an element is kept or comes.   Backpressures when: an element is kept.
    Completes when: upstream completes and the element has been emitted.   Cancels when: downstream cancels.
    Marks: in the queue; exact.
    """

    def __init__(self) -> None:
        super().__init__(1)


class BufferLogic(FlowLogic):
    """Keeps elements in `queue`. `room`, `accept` and `hand_out` are all that a kind of buffer has of its own."""

    def __init__(self, n: int, strategy: str) -> None:
        self.n = n
        self.queue = MarkedQueue()
        self._strategy = strategy
        self._completing = False

    def room(self) -> int:
        """Return how many elements can be passed on or kept."""
        return self.out.asked + self.n - self.queue.size

    def accept(self, chunk: list[Any]) -> None:
        """Pass on or keep elements for which there is room."""
        if not self.queue and len(chunk) <= self.out.asked:
            if chunk:
                self.out.push(chunk)
        else:
            self.queue.put(chunk)
            self.hand_out()

    def hand_out(self) -> None:
        """Push what downstream asks for."""
        self.queue.push_out(self.out.asked, self.out.push, self.out.mark)

    def on_start(self) -> None:
        self._ask()

    def _ask(self) -> None:
        room = self.room()
        if room > 0:
            self.in_.want(room)
        elif self._strategy != BACKPRESSURE:
            self.in_.want_when_idle()

    def on_pull(self, out: Connection) -> None:
        self.hand_out()
        if self._completing and not self.queue:
            self.complete_stage()
        else:
            self._ask()

    def on_push(self, in_: Connection) -> None:
        room = self.room()
        if room > 0:
            self.accept(in_.grab(room))
        elif self._strategy != BACKPRESSURE:
            chunk = in_.grab(1)
            if chunk and self._strategy != "drop_new":
                if not self._make_room():
                    return
                self.accept(chunk)
        self._ask()

    def _make_room(self) -> bool:
        """The queue is full and one element too many has come. Return False when that ends the stage."""
        strategy, queue = self._strategy, self.queue
        if strategy == "drop_head":
            queue.drop_head(1)
        elif strategy == "drop_tail":
            queue.drop_tail(1)
        elif strategy == "drop_buffer":
            queue.clear()
        else:
            self.fail_stage(
                BufferOverflow(
                    f"{self.name}: {self.n} elements are kept and downstream asks for none; "
                    "make the buffer larger, or choose a strategy that drops or back-pressures"
                )
            )
            return False
        return True

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if self.queue:
            self.queue.put_mark(mark)
        else:
            self.out.mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self._completing = True
        if not self.queue:
            self.complete_stage()

    def snapshot_state(self) -> str:
        return f"keeps {self.queue.size} of {self.n}"
