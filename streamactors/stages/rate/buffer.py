"""Operators that decouple the speeds of upstream and downstream by a queue: buffer, detach.

Marks are in the queue between the elements. When elements are dropped the marks stay, because an element dropped on purpose is done.

A buffer that drops passes elements on while downstream asks, and keeps others as long as it has room. When it is full it asks for one more
element only when its island has nothing else to do: so a consumer in the same island that is as fast as upstream loses no element."""

from __future__ import annotations

from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import FlowLogic, logic_of
from streamactors.engine.marks.marks import EXACT, EXACT_MEMORY, Handling, Mark
from streamactors.engine.stage import In, Stage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BufferOverflow
from streamactors.gauges import Gauge
from streamactors.stages.bases.marked_queue import MarkedQueue
from streamactors.stages.checks import positive
from streamactors.stages.defaults import BACKPRESSURE
from streamactors.stages.rate.strategies import checked_strategy


class Buffer(Stage[In, In]):
    """The stage of `Source.buffer`."""

    traits = StageTraits(ends_with_inputs=True)
    handling: Handling = EXACT

    def __init__(self, n: int, strategy: str = BACKPRESSURE, *, named: str = "n") -> None:
        self.n = positive(self.label, named, n)
        self.strategy = checked_strategy(self.label, "strategy", strategy)
        if strategy.startswith("drop"):
            self.handling = EXACT_MEMORY


class Detach(Buffer[In]):
    """The stage of `Source.detach`."""

    def __init__(self) -> None:
        super().__init__(1)


@logic_of(Buffer)
class BufferLogic(FlowLogic):
    """Keeps elements in `queue`. Subclasses override `room`, `accept` and `hand_out`."""

    only_waits = True

    stage: Buffer[Any]

    def __init__(self, stage: Buffer[Any]) -> None:
        super().__init__(stage)
        self.queue = MarkedQueue()
        self._gauge = Gauge(f"{stage.label}: elements that are kept", stage.n)
        self._completing = False

    def room(self) -> int:
        """Return the number of elements that can be passed on or kept."""
        return self.out.asked + self.stage.n - self.queue.size

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
        self._gauge.reached(self.queue.size)

    def on_start(self) -> None:
        self._ask()

    def _ask(self) -> None:
        room = self.room()
        if room > 0:
            self.in_.want(room)
        elif self.stage.strategy != BACKPRESSURE:
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
        elif self.stage.strategy != BACKPRESSURE:
            chunk = in_.grab(1)
            if chunk and self.stage.strategy != "drop_new":
                if not self._make_room():
                    return
                self.accept(chunk)
        self._ask()

    def _make_room(self) -> bool:
        """The queue is full and another element has come. Return False when that ends the stage."""
        strategy, queue = self.stage.strategy, self.queue
        if strategy == "drop_head":
            queue.drop_head(1)
        elif strategy == "drop_tail":
            queue.drop_tail(1)
        elif strategy == "drop_buffer":
            queue.clear()
        else:
            self.fail_stage(
                BufferOverflow(
                    f"{self.name}: {self.stage.n} elements are kept and downstream asks for none; "
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
        return f"keeps {self.queue.size} of {self.stage.n}"
