"""The future that a running stream or an ask returns.

It is a `concurrent.futures.Future`, so threads, executors and callbacks work as everywhere, and it can be awaited in
any asyncio event loop. It refuses to wait on the threads that would have to complete it.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import logging
from _thread import RLock, allocate_lock
from collections.abc import Callable, Generator
from concurrent.futures._base import FINISHED, PENDING
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from streamactors.actors.waits import wait_until
from streamactors.durations import Duration, duration_s
from streamactors.living import Living
from streamactors.log_limit import alike, log_limited

T = TypeVar("T")
R = TypeVar("R")

_log = logging.getLogger("streamactors.engine")


class UnreadFailure:
    """The failure of a run until it is read from a future of the run.

    The futures share it. It is logged when the last of them is collected, or when the process ends. A program that starts a stream per request
    gets a line a second, with the number of others like it."""

    __slots__ = ("__weakref__", "read", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.read = False
        _unread.add(self)

    def log(self) -> None:
        """Log the failure unless it was read or logged before."""
        if not self.read:
            self.read = True
            log_limited(_log, logging.ERROR, alike(self.text), "%s", self.text)

    def __del__(self) -> None:
        self.log()


_unread: Living[UnreadFailure] = Living()


@atexit.register
def _log_unread() -> None:
    for failure in list(_unread):
        failure.log()


class _Condition(RLock):  # type: ignore[misc]  # final for checkers alone
    """The part of threading.Condition that a future uses (the lock, `wait` once, `notify_all`), at a third of the cost: a stream makes
    one per run, and only C code takes the lock."""

    __slots__ = ("_sleeping",)

    def __init__(self) -> None:
        self._sleeping: list[Any] | None = None  # a held lock for each thread that waits

    def wait(self, timeout: float | None = None) -> None:
        """Release the lock until `notify_all`, or for `timeout` seconds. The caller checks the future's state afterwards."""
        wake_up = allocate_lock()
        wake_up.acquire()
        if self._sleeping is None:
            self._sleeping = []
        self._sleeping.append(wake_up)
        self.release()
        try:
            if timeout is None:
                wake_up.acquire()
            else:
                wake_up.acquire(True, max(timeout, 0))
        finally:
            self.acquire()
            if self._sleeping is not None and wake_up in self._sleeping:
                self._sleeping.remove(wake_up)  # not woken: timed out, or interrupted

    def notify_all(self) -> None:
        """Wake every thread that waits. The lock is held."""
        sleeping, self._sleeping = self._sleeping, None
        for wake_up in sleeping or ():
            wake_up.release()


_NO_RESULT: Final = "a StreamFuture is not the result itself: .result() waits for the result, in a coroutine await does"


class StreamFuture(concurrent.futures.Future[T], Generic[T]):
    """A result that will come. `cancel()` of a sink's future stops its stream; other futures cannot be cancelled."""

    stop_stream: Callable[[], None] | None = None
    """Cancels the stream; None: it has ended, or the future is not a sink's."""
    run: Any = None
    """The run of a sink's future, until the sink has ended."""
    failure: UnreadFailure | None = None

    def __init__(self, name: str = "") -> None:
        # The fields of `concurrent.futures.Future`. Its __init__ is not called: it would spend most of its time on a
        # threading.Condition.
        self._condition: Any = _Condition()
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self.name = name

    if not TYPE_CHECKING:

        def __iter__(self):
            raise TypeError(_NO_RESULT)

        def __getitem__(self, _):
            raise TypeError(_NO_RESULT)

    def cancel(self) -> bool:
        """Stop the stream, as a cancelling sink does, and return True; return False when it has ended or cannot be stopped here."""
        stop = self.stop_stream
        if stop is None or not super().cancel():
            return False
        stop()
        return True

    def running(self) -> bool:
        """Return True until there is a result."""
        return not self.done()

    def result(self, timeout: Duration | None = None) -> T:
        """Wait up to `timeout` (seconds, a timedelta or a string such as "5s"; None: without limit) for the result; raise the error if
        there is one, TimeoutError if there is neither.

        Raises WouldBlock unless the result is there already (or `timeout` is 0): on a thread of a dispatcher, a pool or an asyncio loop that
        streams use, and when a stage's `loop=` does not run.
        """
        return self._outcome("result", super().result, timeout)

    def exception(self, timeout: Duration | None = None) -> BaseException | None:
        """Like `result`, with `timeout` in seconds too, but return the error, or None if there was none."""
        return self._outcome("exception", super().exception, timeout)

    def add_done_callback(self, fn: Callable[[concurrent.futures.Future[T]], object]) -> None:
        """As in concurrent.futures. Whoever adds a callback answers for the failure: it is not logged."""
        super().add_done_callback(fn)
        if self.failure is not None:
            self.failure.read = True

    def try_fail_of(self, failure: UnreadFailure | None, error: BaseException) -> bool:
        """As `try_fail`; `failure` is logged unless the error is read."""
        if not self.done():
            self.failure = failure
            if failure is not None and self._done_callbacks:
                failure.read = True
        return self.try_fail(error)

    def try_complete(self, value: T) -> bool:
        """Set the result unless there is one; return whether it was set."""
        try:
            self.set_result(value)
        except concurrent.futures.InvalidStateError:
            return False
        return True

    def try_fail(self, error: BaseException) -> bool:
        """Set the error unless there is a result; return whether it was set."""
        try:
            self.set_exception(error)
        except concurrent.futures.InvalidStateError:
            return False
        return True

    def __await__(self) -> Generator[Any, None, T]:
        return asyncio.wrap_future(_ForAsyncio(self)).__await__()

    def _outcome(self, what: str, outcome: Callable[[float], R], timeout: Duration | None) -> R:
        """Wait, and return or raise the outcome; a failure counts as read. Raises TimeoutError with a message if there is none."""
        seconds = self._wait(what, timeout)
        try:
            return outcome(0)
        except TimeoutError:
            if not self.done():  # else the TimeoutError is the result itself
                waited = 0.0 if seconds is None else seconds
                raise TimeoutError(
                    f"{self.name or 'the stream'}: no result after {waited:g} s; it still runs"
                ) from None
            raise
        finally:
            if self.failure is not None and self._state == FINISHED:
                self.failure.read = True

    def _wait(self, what: str, timeout: Duration | None) -> float | None:
        """Wait for the outcome, at most `timeout`; return `timeout` in seconds."""
        seconds = None if timeout is None else duration_s(timeout, "timeout")
        if seconds != 0 and not self.done():
            sleep, wake = self._sleeper()
            wait_until(self.done, sleep, wake, f"{what}() of {self.name or 'a future'}", self.run, seconds)
        return seconds

    def _sleeper(self) -> tuple[Callable[[float | None], None], Callable[[], None]]:
        """Return how one thread sleeps until the outcome is there or another thread wakes it, and how it is woken, before its sleep as well."""
        woken = False

        def sleep(seconds: float | None) -> None:
            nonlocal woken
            with self._condition:
                if not woken and not self.done():  # the lock may be taken twice
                    self._condition.wait(seconds)
                woken = False

        def wake() -> None:
            nonlocal woken
            with self._condition:
                woken = True
                self._condition.notify_all()

        return sleep, wake


class _ForAsyncio(concurrent.futures.Future[T]):
    """The outcome of a StreamFuture in a form that asyncio accepts. asyncio refuses StopIteration as an error, and a coroutine would wait for
    ever: as for a coroutine that raises it (PEP 479), the error is a RuntimeError, with the StopIteration as its cause."""

    def __init__(self, future: StreamFuture[T]) -> None:
        super().__init__()
        self._future = future
        future.add_done_callback(self._copy)

    def cancel(self) -> bool:
        """Cancel the StreamFuture."""
        return self._future.cancel()

    def _copy(self, future: concurrent.futures.Future[T]) -> None:
        if future.cancelled():
            super().cancel()
            return
        error = future.exception()
        if error is None:
            self.set_result(future.result())
        elif isinstance(error, StopIteration):
            refused = RuntimeError(f"the stream failed with {error!r}")
            refused.__cause__ = error
            self.set_exception(refused)
        else:
            self.set_exception(error)
