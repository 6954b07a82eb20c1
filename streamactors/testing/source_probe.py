"""TestSource.probe(): a source whose elements the test sends, and whose demand and cancellation it checks."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from streamactors.clock import Duration, duration_ms
from streamactors.dsl.source import Source
from streamactors.engine.blueprint import StageModule
from streamactors.engine.logic import AsyncCallback
from streamactors.testing.probe_stages import ProbeSource
from streamactors.testing.signals import DEFAULT_TIMEOUT, OnCancel, OnRequest, OnSubscribe, Signal, Signals


class TestSource:
    """Sources for tests."""

    __test__ = False  # not a test, whatever pytest makes of the name

    @staticmethod
    def probe(timeout: Duration = DEFAULT_TIMEOUT) -> Source[Any, TestSourceProbe]:
        """Return a source that materializes a TestSourceProbe. Its calls wait up to `timeout` of real time."""
        duration_ms(timeout)  # a mistake is an error here
        return Source(StageModule(ProbeSource(lambda: TestSourceProbe(timeout))))


class TestSourceProbe:
    """Sends elements as downstream asks for them. A call that finds something else raises AssertionError."""

    __test__ = False

    def __init__(self, timeout: Duration) -> None:
        self._signals = Signals("source probe", timeout)
        self._subscribed = False
        self._pending = 0
        self._push: AsyncCallback[list[Any]]
        self._complete: AsyncCallback[None]
        self._fail: AsyncCallback[BaseException]

    def ensure_subscription(self) -> TestSourceProbe:
        """Wait until the stage has started."""
        if not self._subscribed:
            signal = self._signals.next("the subscription")
            if not isinstance(signal, OnSubscribe):
                raise self._signals.unexpected("the subscription", signal)
            self._subscribed = True
        return self

    def send_next(self, *elements: Any) -> TestSourceProbe:
        """Send elements, each as soon as downstream has asked for it; those asked for at once travel as one chunk."""
        left = list(elements)
        while left:
            if not self._pending:
                self.expect_request()
            chunk, left = left[: self._pending], left[self._pending :]
            self._pending -= len(chunk)
            self._push.invoke(chunk)
        return self

    def unsafe_send_next(self, element: Any) -> TestSourceProbe:
        """Send an element whether or not anybody has asked for it."""
        self._pending = max(0, self._pending - 1)
        self._push.invoke([element])
        return self

    def send_complete(self) -> TestSourceProbe:
        """Complete the stream."""
        self._complete.invoke(None)
        return self

    def send_error(self, error: BaseException) -> TestSourceProbe:
        """Fail the stream."""
        self._fail.invoke(error)
        return self

    @property
    def pending(self) -> int:
        """Elements that downstream has asked for, as far as was looked at, and that were not sent."""
        while isinstance(signal := self._signals.peek(0), OnRequest | OnSubscribe):
            self._signals.next("a request")
            if isinstance(signal, OnRequest):
                self._pending += signal.n
            else:
                self._subscribed = True
        return self._pending

    def expect_request(self, timeout: Duration | None = None) -> int:
        """Wait until downstream asks for more and return how many more."""
        signal = self._next("a request", timeout)
        if not isinstance(signal, OnRequest):
            raise self._signals.unexpected("a request", signal)
        self._pending += signal.n
        return signal.n

    def expect_cancellation(self, timeout: Duration | None = None) -> TestSourceProbe:
        """Check that downstream cancels next; requests before that are passed over."""
        self._cancellation(timeout)
        return self

    def expect_cancellation_with_cause(
        self, expected: type[BaseException] | BaseException | None = None, timeout: Duration | None = None
    ) -> BaseException:
        """As `expect_cancellation`; return the cause, and check it against a class or an error if one is given."""
        signal = self._cancellation(timeout)
        if isinstance(expected, type):
            if not isinstance(signal.cause, expected):
                raise self._signals.unexpected(f"cancellation with a {expected.__name__}", signal)
        elif expected is not None and signal.cause is not expected and signal.cause != expected:
            raise self._signals.unexpected(f"cancellation with {expected!r}", signal)
        return signal.cause

    def expect_no_message(self, duration: Duration = "100ms") -> TestSourceProbe:
        """Check that neither a request nor a cancellation comes for a while. Under a virtual clock that time passes at once."""
        self.ensure_subscription()
        self._signals.nothing(duration)
        return self

    def within(self, limit: Duration) -> AbstractContextManager[None]:
        """Everything in the block must be over in `limit` of real time."""
        return self._signals.within(limit)

    def _next(self, expected: str, timeout: Duration | None) -> Signal:
        self.ensure_subscription()
        return self._signals.next(expected, timeout)

    def _cancellation(self, timeout: Duration | None) -> OnCancel:
        while True:
            signal = self._next("cancellation", timeout)
            if isinstance(signal, OnCancel):
                return signal
            if not isinstance(signal, OnRequest):
                raise self._signals.unexpected("cancellation", signal)
            self._pending += signal.n
