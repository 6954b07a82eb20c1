"""The future that a running stream or an ask hands out.

It is a `concurrent.futures.Future`, so threads, executors and callbacks work as everywhere, and it can be awaited in
any asyncio event loop. It refuses to wait on the threads that would have to complete it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from streamactors.actors.threads import current_owner
from streamactors.errors import ActorError

T = TypeVar("T")


class WouldBlock(ActorError):
    """A dispatcher or pool thread was about to wait for work that it may have to do itself."""


class StreamFuture(concurrent.futures.Future[T], Generic[T]):
    """A result to come. `cancel()` has no effect: a stream is ended by a kill switch, an actor by a message."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
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
        if timeout != 0 and not self.done():
            owner = current_owner()
            if owner is not None:
                raise WouldBlock(
                    f"{what}() of {self.name or 'a future'} was called on a thread of {owner!r}, which may have to "
                    "produce it: it would wait for itself; use map_async, add_done_callback or await instead"
                )
