"""An async boundary: the two halves between two islands. One message per chunk one way, credits the other.

    island A … ─► BoundaryOut ══ (chunk, mark) ══► BoundaryIn ─► … island B
                              ◄══  credits  ══

Bounded by the credits. Completion arrives behind the elements, a failure overtakes them. With a fixed `buffer` of n the far side
is granted n elements at the start, and n/2 more whenever that many were taken. Without one the window follows the consumer: it
starts at 16 and grows to 4,096 while elements leave quickly, and holds about half a second of work when they do not."""

from __future__ import annotations

from collections import deque
from time import perf_counter
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT, Mark
from streamactors.engine.pace import AHEAD_S, FIRST_WINDOW
from streamactors.engine.stage import NOT_USED, SINK, SOURCE, GraphStage

LARGEST_WINDOW = 4_096


class BoundaryOut(GraphStage):
    """The half in the upstream island."""

    shape = SINK
    name = "async_boundary"
    handling = EXACT

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return BoundaryOutLogic(), NOT_USED


class BoundaryIn(GraphStage):
    """The half in the downstream island; `peer_node` is the other half's place in the plan."""

    shape = SOURCE
    name = "async_boundary"
    handling = EXACT

    def __init__(self, peer: BoundaryOut, peer_node: int, buffer: int | None) -> None:
        self.peer = peer
        self.peer_node = peer_node
        self.buffer = buffer

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return BoundaryInLogic(self.buffer), NOT_USED


def connect(out_half: Logic, in_half: Logic) -> None:
    """Let the two halves of a run know each other; the first credit is there at the start."""
    assert isinstance(out_half, BoundaryOutLogic)
    assert isinstance(in_half, BoundaryInLogic)
    out_half.peer = in_half
    in_half.peer = out_half
    out_half._credit = in_half._granted = in_half._window


class BoundaryOutLogic(Logic):
    """Takes what it has credit for and sends it over."""

    passes_marks = True
    peer: BoundaryInLogic

    def __init__(self) -> None:
        self._credit = 0
        self._ended = False

    def on_start(self) -> None:
        self.inlets[0].want(self._credit)

    def on_credit(self, n: int) -> None:
        """The other half can take n more elements."""
        self._credit += n
        self.inlets[0].want(self._credit)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._credit)
        self._credit -= len(chunk)
        items = in_.items
        mark = items.popleft() if items and type(items[0]) is not list else None
        peer = self.peer
        peer.interpreter.island.tell((peer, peer.on_batch, (chunk, mark)))
        if self._credit:
            in_.want(self._credit)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.peer.interpreter.post(self.peer, self.peer.on_batch, (None, mark))

    def on_complete(self, in_: Connection) -> None:
        self._ended = True
        self.peer.interpreter.post(self.peer, self.peer.on_ended, None)

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._ended = True
        self.peer.interpreter.post(self.peer, self.peer.on_failed, error)

    def fail_stage(self, error: BaseException) -> None:
        if not self._ended:
            self._ended = True
            self.peer.interpreter.post(self.peer, self.peer.on_failed, error)
        super().fail_stage(error)

    def on_stop(self) -> None:
        del self.peer  # the halves know each other: a cycle

    def on_cancelled(self, cause: BaseException) -> None:
        """The other half's downstream wants no more."""
        self._ended = True
        self.inlets[0].cancel(cause)

    def snapshot_state(self) -> str:
        return f"credit {self._credit}"


class BoundaryInLogic(Logic):
    """Holds what came over until downstream asks, and grants credits as it leaves."""

    passes_marks = True
    peer: BoundaryOutLogic

    def __init__(self, buffer: int | None) -> None:
        self._fixed = buffer is not None
        self._window = buffer or FIRST_WINDOW
        self._granted = 0  # elements the other half may still send, and those on their way
        self._held = 0
        self._items: deque[Any] = deque()
        self._starved = True
        self._taken = 0
        self._since = 0.0
        self._completing = False

    def on_start(self) -> None:
        self._since = perf_counter()

    def _grant(self, n: int) -> None:
        self._granted += n
        peer = self.peer
        peer.interpreter.island.tell((peer, peer.on_credit, n))

    def on_batch(self, batch: tuple[list[Any] | None, Mark | None]) -> None:
        """A chunk, a mark behind it, or either alone, has come over."""
        chunk, mark = batch
        out = self.outlets[0]
        if out.out_closed:
            return
        items = self._items
        if chunk:
            n = len(chunk)
            self._granted -= n
            if not items and n <= out.asked:
                out.push(chunk)
                self._took(n)
            else:
                self._held += n
                items.append(chunk)
        if mark is not None:
            if items:
                items.append(mark)
            else:
                out.mark(mark)
        if items and out.asked:
            self.on_pull(out)

    def on_pull(self, out: Connection) -> None:
        items = self._items
        while items and (type(items[0]) is not list or out.asked):
            head = items.popleft()
            if type(head) is not list:
                out.mark(head)
                continue
            asked = out.asked
            if len(head) > asked:
                items.appendleft(head[asked:])
                head = head[:asked]
            self._held -= len(head)
            out.push(head)
            self._took(len(head))
        if self._completing and not items:
            self.complete_stage()

    def _took(self, n: int) -> None:
        self._taken += n
        if not self._held:
            self._starved = True
        half = (self._window + 1) >> 1
        if self._completing or self._granted + self._held > self._window - half:
            return
        if not self._fixed:
            self._resize()
        missing = self._window - self._granted - self._held
        if missing > 0:
            self._grant(missing)

    def _resize(self) -> None:
        now = perf_counter()
        rate = self._taken / max(now - self._since, 1e-6)
        window = self._window * 2
        if not self._starved:
            window = min(window, int(rate * AHEAD_S))
        self._window = max(1, min(window, LARGEST_WINDOW))
        self._taken = 0
        self._since = now
        self._starved = not self._held

    def on_ended(self, _: None) -> None:
        """Upstream has completed; what is held goes out first."""
        self._completing = True
        if not self._items:
            self.complete_stage()

    def on_failed(self, error: BaseException) -> None:
        """Upstream has failed; the error overtakes what is held."""
        self._items.clear()
        self._held = 0
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._items.clear()
        self._held = 0
        if not self._completing:  # else there is nobody left to hear it
            self.peer.interpreter.post(self.peer, self.peer.on_cancelled, cause)
        super().on_cancel(out, cause)

    def fail_stage(self, error: BaseException) -> None:
        if not self._completing and not self.outlets[0].out_closed:
            self.peer.interpreter.post(self.peer, self.peer.on_cancelled, error)
        super().fail_stage(error)

    def snapshot_state(self) -> str:
        return f"holds {self._held} of {self._window}"
