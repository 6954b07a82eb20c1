"""An async boundary: the two halves between two islands. One message per chunk one way, credits the other.

    island A … ─► BoundaryOut ══ (chunk, mark) ══► BoundaryIn ─► … island B
                              ◄══  credits  ══

The credits (`credit.py`) bound the elements on the way. Completion arrives after the elements; a failure overtakes them."""

from __future__ import annotations

from collections import deque
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.credit import CreditWindow
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT, Mark
from streamactors.engine.stage import NOT_USED, SINK, SOURCE, GraphStage


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


def logics_behind(first: Logic) -> set[Logic]:
    """Return every stage that elements of the stage `first` can reach, across boundaries too. Call it before stages stop."""
    found: set[Logic] = set()
    work: list[Logic] = [first]
    while work:
        logic = work.pop()
        following = [out.consumer for out in logic.outlets]
        if isinstance(logic, BoundaryOutLogic):
            following.append(logic.peer)
        for each in following:
            if each not in found:
                found.add(each)
                work.append(each)
    return found


def connect(out_half: Logic, in_half: Logic) -> None:
    """Connect the two halves in a run. The upstream half starts with the whole window as credit."""
    assert isinstance(out_half, BoundaryOutLogic)
    assert isinstance(in_half, BoundaryInLogic)
    out_half.peer = in_half
    in_half.peer = out_half
    out_half.connected(in_half)


class BoundaryOutLogic(Logic):
    """Sends as many elements as it has credit for."""

    passes_marks = True
    only_waits = True
    peer: BoundaryInLogic

    def __init__(self) -> None:
        self._credit = 0
        self._ended = False

    # What is sent to the other half; a boundary to a worker process sends it elsewhere (engine/workers/).

    def connected(self, in_half: BoundaryInLogic) -> None:
        """Begin with the whole window of the other half as credit."""
        self._credit = in_half.window.size

    def send_batch(self, chunk: list[Any], mark: Mark | None) -> None:
        """Send a chunk and the mark after it."""
        peer = self.peer
        peer.interpreter.island.tell((peer, peer.on_batch, (chunk, mark)))

    def send_mark(self, mark: Mark) -> None:
        """Send a mark."""
        self.peer.interpreter.post(self.peer, self.peer.on_batch, (None, mark))

    def send_end(self) -> None:
        """Say that all elements were sent."""
        self.peer.interpreter.post(self.peer, self.peer.on_ended, None)

    def send_failure(self, error: BaseException) -> None:
        """Say that upstream has failed."""
        self.peer.interpreter.post(self.peer, self.peer.on_failed, error)

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_start(self) -> None:
        self.inlets[0].want(self._credit)

    def on_credit(self, n: int) -> None:
        """The other half grants credit for n more elements."""
        self._credit += n
        self.inlets[0].want(self._credit)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._credit)
        self._credit -= len(chunk)
        items = in_.items
        mark = in_.take_mark() if items and type(items[0]) is not list else None
        self.send_batch(chunk, mark)
        if self._credit:
            in_.want(self._credit)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self.send_mark(mark)

    def on_complete(self, in_: Connection) -> None:
        self._ended = True
        self.send_end()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        self._ended = True
        self.send_failure(error)

    def fail_stage(self, error: BaseException) -> None:
        if not self._ended:
            self._ended = True
            self.send_failure(error)
        super().fail_stage(error)

    def on_stop(self) -> None:
        del self.peer  # breaks the reference cycle of the two halves

    def on_cancelled(self, cause: BaseException) -> None:
        """The other half's downstream has cancelled."""
        self._ended = True
        self.inlets[0].cancel(cause)

    def snapshot_state(self) -> str:
        return f"credit {self._credit}"


class BoundaryInLogic(Logic):
    """Holds elements until downstream asks for them, and grants credits for those that it has pushed."""

    passes_marks = True
    only_waits = True
    peer: BoundaryOutLogic

    def __init__(self, buffer: int | None) -> None:
        self.window = CreditWindow(buffer, "an asynchronous boundary")
        self.held = 0
        self._items: deque[Any] = deque()
        self._completing = False

    def send_credits(self, n: int) -> None:
        """Grant the other half credit for n more elements."""
        peer = self.peer
        peer.interpreter.island.tell((peer, peer.on_credit, n))

    def send_cancel(self, cause: BaseException) -> None:
        """Say that downstream has cancelled."""
        self.peer.interpreter.post(self.peer, self.peer.on_cancelled, cause)

    # ── handlers ──────────────────────────────────────────────────────────────────────────────────────────────────

    def on_batch(self, batch: tuple[list[Any] | None, Mark | None]) -> None:
        """A chunk, a mark, or a chunk and the mark after it have arrived."""
        chunk, mark = batch
        out = self.outlets[0]
        if out.out_closed:
            return
        items = self._items
        if chunk:
            n = len(chunk)
            if not items and n <= out.asked:
                out.push(chunk)
                self._took(n)
            else:
                self.held += n
                self.window.holds(self.held)
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
            self.held -= len(head)
            out.push(head)
            self._took(len(head))
        if self._completing and not items:
            self.complete_stage()

    def _took(self, n: int) -> None:
        credits = self.window.taken(n, not self.held)
        if credits and not self._completing:
            self.send_credits(credits)

    def on_ended(self, _: None) -> None:
        """Upstream has completed; the held elements are pushed first."""
        self._completing = True
        if not self._items:
            self.complete_stage()

    def on_failed(self, error: BaseException) -> None:
        """Upstream has failed; the held elements are dropped."""
        self._items.clear()
        self.held = 0
        self.fail_stage(error)

    def on_cancel(self, out: Connection, cause: BaseException) -> None:
        self._items.clear()
        self.held = 0
        if not self._completing:  # otherwise the other half has ended
            self.send_cancel(cause)
        super().on_cancel(out, cause)

    def fail_stage(self, error: BaseException) -> None:
        if not self._completing and not self.outlets[0].out_closed:
            self.send_cancel(error)
        super().fail_stage(error)

    def snapshot_state(self) -> str:
        return f"holds {self.held} of {self.window.size}"
