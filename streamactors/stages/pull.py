"""The end of a stream that somebody outside reads at their own pace: what to_queue, run_iter and run_async_iter stand on.

    … ─► PullLogic ══ chunks, marks, the end ══► ChunkReader ─► a thread or a coroutine
                   ◄══  credits                ══

Bounded by the credits: a fixed `buffer`, or a window that starts at 16 and follows the reader up to 4,096, about half a second of
its work. A mark is done when the reader asks for the element behind it: then it is through with everything before."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from streamactors.actors.futures import WouldBlock
from streamactors.actors.threads import current_owner
from streamactors.engine.attributes import Attributes
from streamactors.engine.boundary import LARGEST_WINDOW
from streamactors.engine.connection import COMPLETED, Connection
from streamactors.engine.logic import AsyncCallback, Logic
from streamactors.engine.marks import EXACT, Mark
from streamactors.engine.pace import AHEAD_S, FIRST_WINDOW
from streamactors.engine.stage import SINK, GraphStage
from streamactors.errors import AbruptTermination
from streamactors.stages.checks import positive

T = TypeVar("T")

END: Final = COMPLETED
"""Returned instead of a chunk when the stream has completed."""


class PullSink(GraphStage):
    """Materializes a ChunkReader."""

    shape = SINK
    handling = EXACT

    def __init__(self, name: str, buffer: int | None) -> None:
        self.name = name
        self._buffer = None if buffer is None else positive(name, "buffer", buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        reader: ChunkReader[Any] = ChunkReader(self._buffer)
        return PullLogic(reader), reader


class ChunkReader(Generic[T]):
    """The reader's side. One reader at a time; any thread."""

    def __init__(self, buffer: int | None) -> None:
        self._lock = threading.Lock()
        self._items: deque[Any] = deque()  # chunks, marks, and at the end END or an error
        self._waiter: Callable[[], None] | None = None
        self._fixed = buffer is not None
        self.window = buffer or FIRST_WINDOW
        self._taken = 0  # elements of the last chunk given out
        self._owed = 0  # elements read and not asked for anew
        self._starved = True
        self._since = 0.0
        self._over = False
        self._logic: PullLogic
        self._grant: AsyncCallback[int]
        self._cancel: AsyncCallback[BaseException | None]

    # ── the reader ────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> list[T] | Any:
        """Return the next chunk, END, or None when nothing has arrived yet; raise the error of a failed stream.

        Everything taken before is done with: marks behind it are done, and its elements are asked for anew."""
        if self._taken:
            self._account()
        items = self._items
        while items:
            item = items.popleft()
            if type(item) is list:
                self._taken = len(item)
                return item
            if item is END:
                items.append(END)
                self._over = True
                self._progress().sink_ended(self._logic)
                return END
            if isinstance(item, BaseException):
                items.append(item)
                self._over = True
                raise item
            self._progress().done(self._logic, item)
        return None

    def when_ready(self, callback: Callable[[], None]) -> None:
        """Have `callback` called once, from any thread, when `take` has something to look at; at once if it has now."""
        with self._lock:
            if not self._items:
                self._waiter = callback
                return
        callback()

    def wait(self, timeout: float | None = None) -> bool:
        """Block until `take` has something to look at; return False after `timeout` seconds without.

        Raises WouldBlock on a thread that may have to do the stream's own work."""
        owner = None if self._items else current_owner()
        if owner is not None:
            raise WouldBlock(f"reading a stream on a thread of {owner!r} would wait for itself; use a flow instead")
        ready = threading.Event()
        self.when_ready(ready.set)
        return ready.wait(timeout)

    def cancel(self, cause: BaseException | None = None) -> None:
        """Want no more; with a cause the stream fails with it. Does nothing when the stream is over."""
        with self._lock:
            if self._over:
                return
            self._over = True
            self._items.clear()
            self._items.append(END)
        self._cancel.invoke(cause)
        if cause is None:
            self._progress().sink_ended(self._logic)

    @property
    def over(self) -> bool:
        """True when the end was read, or the reader has cancelled."""
        return self._over

    def _progress(self) -> Any:
        return self._logic.interpreter.island.run.progress

    def _account(self) -> None:
        n = self._taken
        self._taken = 0
        self._owed += n
        if not self._items:
            self._starved = True
        if self._owed * 2 < self.window:
            return
        grant = self._owed
        self._owed = 0
        if not self._fixed:
            now = perf_counter()
            rate = grant / max(now - self._since, 1e-6)
            self._since = now
            window = self.window * 2
            if not self._starved:
                window = min(window, int(rate * AHEAD_S))
            window = max(1, min(window, LARGEST_WINDOW))
            grant += window - self.window
            self.window = window
            self._starved = not self._items
        if grant > 0:
            self._grant.invoke(grant)
        else:
            self._owed = grant  # the window shrank by more than was read

    # ── the stage ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _deliver(self, item: Any) -> None:
        with self._lock:
            if self._over:
                return
            self._items.append(item)
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter()


class PullLogic(Logic):
    """The stage's side: hands over what it has credit for."""

    passes_marks = True

    def __init__(self, reader: ChunkReader[Any]) -> None:
        self._reader = reader
        self._credit = reader.window
        self._ended = False
        reader._logic = self
        reader._grant = self.async_callback(self._granted)
        reader._cancel = self.async_callback(self._cancelled)

    def on_start(self) -> None:
        self.inlets[0].want(self._credit)

    def on_push(self, in_: Connection) -> None:
        chunk = in_.grab(self._credit)
        if chunk:
            self._credit -= len(chunk)
            self._reader._deliver(chunk)
        in_.want(self._credit)

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        self._reader._deliver(mark)

    def on_complete(self, in_: Connection) -> None:
        self._end(END)
        super().on_complete(in_)

    def fail_stage(self, error: BaseException) -> None:
        self._end(error)
        super().fail_stage(error)

    def on_stop(self) -> None:
        self._end(AbruptTermination(f"{self.name} was stopped before its stream ended"))

    def _granted(self, n: int) -> None:
        self._credit += n
        self.inlets[0].want(self._credit)

    def _cancelled(self, cause: BaseException | None) -> None:
        self._ended = True
        if cause is None:
            self.complete_stage()
        else:
            self.fail_stage(cause)

    def _end(self, item: Any) -> None:
        if not self._ended:
            self._ended = True
            self._reader._deliver(item)

    def snapshot_state(self) -> str:
        return f"{self._credit} asked for by the reader"
