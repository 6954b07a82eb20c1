"""One connection between an outlet and an inlet of the same island.

Elements travel as chunks: non-empty lists that must not be changed once pushed. Demand is counted in elements. The queue holds
chunks and marks in order, plus one terminal at the end. Elements stay here until the consumer grabs them, so a stage that
takes fewer (a slice, a throttle, a zip) holds no marks of its own.

    producer ── push, mark, complete, fail, again, take_back ──►  queue  ◄── want, grab, unread, hold, cancel ── consumer

Owner: the island's interpreter, one thread at a time. Laws: a push is 0 < n <= asked; one terminal; completion and marks wait
until everything before them was grabbed and nothing is held; a failure waits only for elements that the stage takes in `on_push`."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from streamactors.engine.hops.stamp import Stamp
from streamactors.engine.island.causes import NO_MORE_ELEMENTS, NonFailureCancellation
from streamactors.engine.marks.marks import Mark, merge_newer
from streamactors.errors import ProtocolError

if TYPE_CHECKING:
    from streamactors.engine.island.interpreter import Interpreter
    from streamactors.engine.logic import Logic

MAX_ASKED = 2_048
"""The largest demand of an inlet, in elements."""

SHORT_CHUNK = 16
"""Chunks up to this length are joined with the next ones when grabbed."""


class Completed:
    """The terminal of a stream that has completed."""

    def __repr__(self) -> str:
        return "completed"


COMPLETED = Completed()


class Connection:
    """Carries chunks and marks downstream, and demand upstream. Stages may read `asked`, `ready`, `due`, `in_closed`, `out_closed`, `in_index`, `out_index` and `carries`."""

    __slots__ = (
        "asked",
        "cancel_due",
        "carries",
        "cause",
        "chunks",
        "consumer",
        "elements",
        "finished",
        "held",
        "idle_due",
        "in_index",
        "interpreter",
        "items",
        "keeps_left",
        "left",
        "out_index",
        "producer",
        "pull_due",
        "queued",
        "ready",
        "stamps",
        "terminal",
        "untaken",
        "wanting",
    )

    def __init__(self, interpreter: Interpreter, carries: frozenset[Any] = frozenset()) -> None:
        self.interpreter = interpreter
        self.carries = carries  # the sources whose marks can pass here
        self.asked = 0  # elements that may still be pushed
        self.ready = 0  # elements in the queue
        self.items: deque[Any] = deque()
        self.queued = False  # stands in the interpreter's queue
        self.pull_due = False
        self.cancel_due = False
        self.wanting = False  # `on_push` is to be called when elements are ready
        self.held = False
        self.idle_due = False  # `want_when_idle` was called, and the island was not idle since
        self.finished = False  # the consumer has seen the terminal
        self.terminal: Completed | BaseException | None = None
        self.cause: BaseException | None = None  # why it was cancelled
        self.keeps_left = False  # `keep_left` was called
        self.left: list[Any] = []  # what the consumer left when it cancelled
        self.untaken = 0  # elements in the queue when it was cancelled
        self.stamps = 0  # in the queue
        self.elements = 0
        self.chunks = 0
        self.producer: Logic
        self.consumer: Logic
        self.out_index = 0
        self.in_index = 0

    # ── both sides ────────────────────────────────────────────────────────────────────────────────────────────────

    def _enqueue(self) -> None:
        if not self.queued:
            self.queued = True
            self.interpreter.fifo.append(self)

    @property
    def due(self) -> int:
        """Elements asked for and not yet grabbed."""
        return self.asked + self.ready

    @property
    def can_push(self) -> bool:
        """True while the producer may push: it has demand and neither side has closed."""
        return self.asked > 0 and self.terminal is None and self.cause is None

    @property
    def out_closed(self) -> bool:
        """True when the producer has ended it or was cancelled."""
        return self.terminal is not None or self.cause is not None

    @property
    def in_closed(self) -> bool:
        """True when the consumer has cancelled or has seen the terminal."""
        return self.finished or self.cause is not None

    # ── for the producer ──────────────────────────────────────────────────────────────────────────────────────────

    def push(self, chunk: list[Any]) -> None:
        """Push a chunk of 1 to `asked` elements. The chunk is dropped when downstream has cancelled."""
        n = len(chunk)
        if self.cause is not None:
            return
        if self.terminal is not None or n > self.asked or n == 0:
            raise ProtocolError(self._why_no_push(n))
        self.asked -= n
        self.ready += n
        self.elements += n
        self.chunks += 1
        self.items.append(chunk)
        if not self.queued:
            self.queued = True
            self.interpreter.fifo.append(self)

    def _why_no_push(self, n: int) -> str:
        port = f"{self.producer.name}.out({self.out_index})"
        if self.terminal is not None:
            return f"Cannot push closed port ({port})"
        if n == 0:
            return f"Cannot push an empty chunk at port ({port})"
        return (
            f"Cannot push port ({port}) twice, or before it being pulled: {n} elements pushed, {self.asked} asked for"
        )

    def mark(self, mark: Mark) -> None:
        """Put a mark after everything pushed so far. Needs no demand."""
        if self.cause is not None or self.terminal is not None:
            return
        items = self.items
        if type(mark) is dict:
            if items and type(items[-1]) is dict:
                merge_newer(items[-1], mark)
                return
            mark = mark.copy()  # the outlets of a fan-out share it, and each queue merges newer positions into its own
        elif type(mark) is Stamp:
            mark = mark.pushed(self.producer)
            self.stamps += 1
        items.append(mark)
        self._enqueue()

    def complete(self) -> None:
        """Complete the connection after everything pushed. Ignored when it is closed already."""
        if self.terminal is None and self.cause is None:
            self.terminal = COMPLETED
            self.asked = 0
            self.producer.port_closed()
            self._enqueue()

    def fail(self, error: BaseException) -> None:
        """Fail the connection. Elements that the consumer does not take in `on_push` are dropped. Ignored when it is closed already."""
        if self.terminal is None and self.cause is None:
            self.terminal = error
            self.asked = 0
            self.producer.port_closed()
            self._enqueue()

    def again(self) -> None:
        """Call `on_pull` once more, after the other connections in the interpreter's queue."""
        self.pull_due = True
        self._enqueue()

    def keep_left(self) -> None:
        """Keep the elements that the consumer leaves here when it cancels, for `take_back`. The producer's `on_cancel` is then called even
        after it has completed the connection, and its `on_taken` when the consumer has seen the completion."""
        self.keeps_left = True

    def take_back(self) -> list[Any]:
        """Return what the consumer left when it cancelled, chunks and marks in order, once."""
        left, self.left = self.left, []
        return left

    # ── for the consumer ──────────────────────────────────────────────────────────────────────────────────────────

    def want(self, n: int) -> None:
        """Raise the outstanding demand to n (a level, not an increment), and have `on_push` called if elements are ready."""
        if self.cause is not None or self.finished:
            return
        limit = self.interpreter.max_asked
        if n > limit:
            n = limit
        more = n - self.asked - self.ready
        if more > 0 and self.terminal is None:
            self.asked += more
            self.pull_due = True
            if not self.queued:
                self.queued = True
                self.interpreter.fifo.append(self)
        if n > 0:
            self.wanting = True
            if self.items and not self.queued:
                self.queued = True
                self.interpreter.fifo.append(self)

    def ask(self, n: int) -> None:
        """Raise the outstanding demand to n without a call of `on_push`: for a stage that cannot take elements yet."""
        self.want(n)
        self.wanting = False

    def want_when_idle(self) -> None:
        """Ask for one element once the island has nothing else to do."""
        if not self.idle_due and self.cause is None and not self.finished:
            self.idle_due = True
            self.interpreter.call_when_idle(self.consumer, self._want_one)

    def _want_one(self) -> None:
        self.idle_due = False
        self.want(1)

    def grab(self, n: int) -> list[Any]:
        """Take up to n elements; never across a mark; [] when none are ready. Short chunks are joined."""
        items = self.items
        if n <= 0 or not items or type(items[0]) is not list:
            return []
        chunk: list[Any] = items.popleft()
        size = len(chunk)
        if size > n:
            items.appendleft(chunk[n:])
            chunk = chunk[:n]
            self.ready -= n
            return chunk
        if not self.queued and (items or self.terminal is not None):
            self._enqueue()  # grabbed outside this connection's visit: the marks or the terminal after it still need a visit
        if size <= SHORT_CHUNK and items and size < n and type(items[0]) is list:
            chunk = chunk.copy()
            while items and size < n and type(items[0]) is list:
                following = items.popleft()
                room = n - size
                if len(following) > room:
                    items.appendleft(following[room:])
                    following = following[:room]
                chunk += following
                size += len(following)
        self.ready -= size
        return chunk

    def unread(self, rest: list[Any]) -> None:
        """Give back the last elements of the chunk grabbed last."""
        if rest and self.cause is None:
            self.items.appendleft(rest)
            self.ready += len(rest)

    def take_mark(self) -> Mark:
        """Remove and return the mark that is first in the queue."""
        mark: Mark = self.items.popleft()
        if type(mark) is Stamp:
            self.stamps -= 1
            mark.taken(self.consumer)
        return mark

    def begin_stamped(self) -> None:
        """The consumer is about to take elements, and there are stamps in the queue: note it in a stamp that follows these elements directly."""
        mark = next((item for item in self.items if type(item) is not list), None)
        if type(mark) is Stamp:
            mark.begin()

    def hold(self) -> None:
        """Keep elements, marks and completion here until `release`: the consumer has results that it could not push yet.

        A failure does not wait."""
        self.held = True

    def release(self) -> None:
        """End `hold`."""
        if self.held:
            self.held = False
            if self.items or self.terminal is not None:
                self._enqueue()

    def cancel(self, cause: BaseException = NO_MORE_ELEMENTS) -> None:
        """Cancel: no further element is delivered. Marks right after the last element taken still pass. Ignored when it is closed already."""
        if self.cause is not None or self.finished:
            return
        items = self.items
        if not self.held and isinstance(cause, NonFailureCancellation):
            while items and type(items[0]) is not list:
                self.consumer.on_mark(self, self.take_mark())
        if self.keeps_left:
            self.left = list(items)
        items.clear()
        self.untaken = self.ready
        self.ready = self.asked = self.stamps = 0
        self.cause = cause
        self.wanting = self.held = False
        self.consumer.port_closed()
        if self.terminal is None or self.keeps_left:
            self.cancel_due = True
            self._enqueue()

    # ── for the snapshot ──────────────────────────────────────────────────────────────────────────────────────────

    def state(self) -> str:
        """Return one word for the snapshot: open, completing, completed, failed or cancelled."""
        if self.cause is not None:
            return "cancelled"
        if self.terminal is None:
            return "open"
        if self.terminal is COMPLETED:
            return "completed" if self.finished else "completing"
        return "failed"
