"""The future that a running stream or an ask hands out.

It is a `concurrent.futures.Future`, so threads, executors and callbacks work as everywhere, and it can be awaited in
any asyncio event loop. It refuses to wait on the threads that would have to complete it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from _thread import RLock, allocate_lock
from collections.abc import Generator
from concurrent.futures._base import FINISHED, PENDING
from typing import Any, Generic, TypeVar

from streamactors.actors.threads import current_owner
from streamactors.errors import ActorError

T = TypeVar("T")


class WouldBlock(ActorError):
    """A dispatcher or pool thread was about to wait for work that it may have to do itself."""


class _Condition(RLock):  # type: ignore[misc]  # final for checkers alone
    """What a future needs of threading.Condition (the lock, `wait` once, `notify_all`), at a third of the price: a stream makes one
    per run, and its lock is taken by C code alone."""

    __slots__ = ("_sleeping",)

    def __init__(self) -> None:
        self._sleeping: list[Any] | None = None  # a held lock for each thread that waits

    def wait(self, timeout: float | None = None) -> None:
        """Give the lock back until `notify_all`, or for `timeout` seconds. The caller looks itself what has become true."""
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
                self._sleeping.remove(wake_up)  # nobody woke us: too late, or interrupted

    def notify_all(self) -> None:
        """Wake every thread that waits. The lock is held."""
        sleeping, self._sleeping = self._sleeping, None
        for wake_up in sleeping or ():
            wake_up.release()


class StreamFuture(concurrent.futures.Future[T], Generic[T]):
    """A result to come. `cancel()` has no effect: a stream is ended by a kill switch, an actor by a message."""

    def __init__(self, name: str = "") -> None:
        # The fields of `concurrent.futures.Future`, without its call: nine tenths of that make a threading.Condition.
        self._condition: Any = _Condition()
        self._state = PENDING
        self._result = None
        self._exception = None
        self._waiters: list[Any] = []
        self._done_callbacks: list[Any] = []
        self.name = name

    def cancel(self) -> bool:
        """Return False: nothing happens."""
        return False

    def running(self) -> bool:
        """Return True until there is a result."""
        return not self.done()

    def result(self, timeout: float | None = None) -> T:
        """Wait up to `timeout` seconds for the result; raise the error if there is one, TimeoutError if there is
        neither.

        Raises WouldBlock on a dispatcher or pool thread unless the result is there already (or `timeout` is 0).
        """
        self._refuse_to_wait("result", timeout)
        try:
            return super().result(timeout)
        except TimeoutError:
            self._say_if_nothing_came(timeout)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Like `result`, but return the error, or None if there was none."""
        self._refuse_to_wait("exception", timeout)
        try:
            return super().exception(timeout)
        except TimeoutError:
            self._say_if_nothing_came(timeout)
            raise

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
        return asyncio.wrap_future(self).__await__()

    def _say_if_nothing_came(self, timeout: float | None) -> None:
        """Raise a TimeoutError with words, unless the one that was raised is the result."""
        if not self.done():
            raise TimeoutError(f"{self.name or 'the stream'}: no result after {timeout} s; it goes on") from None

    def _refuse_to_wait(self, what: str, timeout: float | None) -> None:
        if timeout != 0 and self._state != FINISHED:
            owner = current_owner()
            if owner is not None:
                raise WouldBlock(
                    f"{what}() of {self.name or 'a future'} was called on a thread of {owner!r}, which may have to "
                    "produce it: it would wait for itself; use map_async, add_done_callback or await instead"
                )
