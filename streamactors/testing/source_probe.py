"""TestSource.probe(): a source whose elements the test sends, and whose demand and cancellation it checks."""

from __future__ import annotations

from typing import Any

from streamactors.dsl.source import Source
from streamactors.durations import Duration, duration_s
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.logic import AsyncCallback
from streamactors.testing.probe_stages import ProbeSource
from streamactors.testing.signals import OnCancel, OnRequest, OnSubscribe, Probe


class TestSource:
    """Sources for tests."""

    __test__ = False  # pytest must not collect it

    @staticmethod
    def probe(timeout: Duration | None = None) -> Source[Any, TestSourceProbe]:
        """Return a source that materializes a TestSourceProbe. Its calls wait up to `timeout` (seconds of real time, a timedelta or a
        string); without it up to 3 s, or the option `streamactors_probe_timeout` of pytest."""
        if timeout is not None:
            duration_s(timeout, "timeout")  # raises for a wrong duration now, not when the stream runs
        return Source(StageModule(ProbeSource(lambda: TestSourceProbe(timeout))))


class TestSourceProbe(Probe):
    """Sends elements on demand. An unexpected signal raises AssertionError.

    `timeout`: how long each call waits, in seconds of real time, or as a timedelta or a string."""

    def __init__(self, timeout: Duration | None) -> None:
        super().__init__("source probe", timeout)
        self._pending = 0
        self._push: AsyncCallback[list[Any]]
        self._complete: AsyncCallback[None]
        self._fail: AsyncCallback[BaseException]

    def send_next(self, *elements: Any) -> TestSourceProbe:
        """Send elements when there is demand; elements of one request travel as one chunk."""
        left = list(elements)
        while left:
            if not self._pending:
                self.expect_request()
            chunk, left = left[: self._pending], left[self._pending :]
            self._pending -= len(chunk)
            self._push.invoke(chunk)
        return self

    def unsafe_send_next(self, element: Any) -> TestSourceProbe:
        """Send an element even without demand."""
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
        """Requested elements that were not sent yet."""
        while isinstance(signal := self._signals.peek(0), OnRequest | OnSubscribe):
            self._signals.next("a request")
            if isinstance(signal, OnRequest):
                self._pending += signal.n
            else:
                self._subscribed = True
        return self._pending

    def expect_request(self, timeout: Duration | None = None) -> int:
        """Wait for the next request, up to `timeout` (seconds, a timedelta or a string; default: the probe's); return its number of elements."""
        signal = self._next("a request", timeout)
        if not isinstance(signal, OnRequest):
            raise self._signals.unexpected("a request", signal)
        self._pending += signal.n
        return signal.n

    def expect_cancellation(self, timeout: Duration | None = None) -> TestSourceProbe:
        """Check that downstream cancels next; requests before the cancellation are skipped.

        `timeout`: seconds, a timedelta or a string; default: the probe's."""
        self._cancellation(timeout)
        return self

    def expect_cancellation_with_cause(
        self, expected: type[BaseException] | BaseException | None = None, timeout: Duration | None = None
    ) -> BaseException:
        """As `expect_cancellation`; return the cause, and check it against a class or an error if one is given.

        `timeout`: seconds, a timedelta or a string; default: the probe's."""
        signal = self._cancellation(timeout)
        if isinstance(expected, type):
            if not isinstance(signal.cause, expected):
                raise self._signals.unexpected(f"cancellation with a {expected.__name__}", signal)
        elif expected is not None and signal.cause is not expected and signal.cause != expected:
            raise self._signals.unexpected(f"cancellation with {expected!r}", signal)
        return signal.cause

    def expect_no_message(self, duration: Duration = "100ms") -> TestSourceProbe:
        """Check that no request and no cancellation arrives for `duration` (seconds, a timedelta or a string). A virtual clock advances by `duration` instead."""
        self.ensure_subscription()
        self._signals.nothing(duration)
        return self

    def _cancellation(self, timeout: Duration | None) -> OnCancel:
        while True:
            signal = self._next("cancellation", timeout)
            if isinstance(signal, OnCancel):
                return signal
            if not isinstance(signal, OnRequest):
                raise self._signals.unexpected("cancellation", signal)
            self._pending += signal.n
