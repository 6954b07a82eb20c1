"""A sink that a thread or coroutine outside reads at its own pace: the base of to_queue, run_iter and run_async_iter.

    … ─► PullLogic ══ chunks, marks, the end ══► ChunkReader ─► a thread or a coroutine
                   ◄══  credits                ══

The credits (`engine/island/credit.py`) bound the elements in transit. A mark is done when the reader asks for the element after it: the
reader has then finished with everything before."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from streamactors.actors.waits import wait_until
from streamactors.durations import Duration, duration_s
from streamactors.engine.island.connection import COMPLETED, Connection
from streamactors.engine.island.credit import CreditWindow
from streamactors.engine.logic import AsyncCallback, Logic
from streamactors.engine.marks.marks import Mark
from streamactors.errors import AbruptTermination

T = TypeVar("T")

END: Final = COMPLETED
"""Returned instead of a chunk when the stream has completed."""


class ChunkReader(Generic[T]):
    """The reader's side. One reader at a time; any thread."""

    def __init__(self, buffer: int | None, name: str) -> None:
        self._lock = threading.Lock()
        self._items: deque[Any] = deque()  # chunks, marks, and at the end END or an error
        self._waiter: Callable[[], None] | None = None
        self.window = CreditWindow(buffer, name)
        self._arrived = 0  # elements; counted by the stream
        self._passed = 0  # elements with which the reader has finished; counted by the reader
        self._taken = 0  # elements of the last chunk that the reader took
        self._over = False
        self._logic: PullLogic
        self._grant: AsyncCallback[int]
        self._cancel: AsyncCallback[BaseException | None]

    # ── the reader ────────────────────────────────────────────────────────────────────────────────────────────────

    def take(self) -> list[T] | Any:
        """Return the next chunk, END, or None when none has arrived yet; raise the error of a failed stream.

        The call says that the reader has finished with the chunk before: marks after it are done, and credits are granted for it."""
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
        """Call `callback` once, on any thread, when `take` has something to return; at once if it has now."""
        with self._lock:
            if not self._items:
                self._waiter = callback
                return
        callback()

    def wait(self, timeout: Duration | None = None) -> bool:
        """Block until `take` has something to return; return False after `timeout` (seconds, a timedelta or a string; None: never).

        Raises WouldBlock on a thread that may have to run the stream itself, and when a stage's `loop=` does not run."""
        ready = threading.Event()
        self.when_ready(ready.set)

        def sleep(seconds: float | None) -> None:
            ready.wait(seconds)
            if not self._items:
                ready.clear()

        return wait_until(
            lambda: bool(self._items),
            sleep,
            ready.set,
            "reading a stream in a loop",
            self._logic.interpreter.island.run,
            None if timeout is None else duration_s(timeout, "timeout"),
        )

    def cancel(self, cause: BaseException | None = None) -> None:
        """Cancel the stream; with a `cause` the stream fails with it. Does nothing when the stream has ended."""
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
        n, self._taken = self._taken, 0
        self._passed += n
        credits = self.window.taken(n, not self._items)
        if credits:
            self._grant.invoke(credits)

    # ── the stage ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _deliver_chunk(self, chunk: list[T]) -> None:
        self._arrived += len(chunk)
        self.window.holds(self._arrived - self._passed)
        self._deliver(chunk)

    def _deliver(self, item: Any) -> None:
        with self._lock:
            if self._over:
                return
            self._items.append(item)
            waiter, self._waiter = self._waiter, None
        if waiter is not None:
            waiter()


class PullLogic(Logic):
    """The stage's side: delivers as many elements as it has credit for."""

    passes_marks = True

    def __init__(self, reader: ChunkReader[Any]) -> None:
        self._reader = reader
        self._credit = reader.window.size
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
            self._reader._deliver_chunk(chunk)
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
