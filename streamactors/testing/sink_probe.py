"""TestSink.probe(): a sink whose demand the test controls and whose signals the test checks one by one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from streamactors.dsl.sink import Sink
from streamactors.dsl.typevars import U
from streamactors.durations import Duration, duration_s
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.engine.logic import AsyncCallback
from streamactors.engine.marks.marks import Mark
from streamactors.testing.probe_stages import ProbeSink
from streamactors.testing.signals import (
    OnComplete,
    OnError,
    OnNext,
    Probe,
    Signal,
    Signals,
)

_ANY: Any = object()


class TestSink:
    """Sinks for tests."""

    __test__ = False  # pytest must not collect it

    @staticmethod
    def probe(timeout: Duration | None = None) -> Sink[Any, TestSinkProbe]:
        """Return a sink that materializes a TestSinkProbe. Its `expect_…` calls wait up to `timeout` (seconds of real time, a timedelta or a
        string); without it up to 3 s, or the option `streamactors_probe_timeout` of pytest."""
        if timeout is not None:
            duration_s(timeout, "timeout")  # raises for a wrong duration now, not when the stream runs
        return Sink(StageModule(ProbeSink(lambda: TestSinkProbe(timeout))))


class TestSinkProbe(Probe):
    """Requests elements and checks the signals that arrive. An unexpected signal raises AssertionError.

    `timeout`: how long each call waits, in seconds of real time, or as a timedelta or a string."""

    def __init__(self, timeout: Duration | None) -> None:
        super().__init__("sink probe", timeout)
        self._request: AsyncCallback[int]
        self._cancel: AsyncCallback[BaseException]
        self.marks: list[Mark] = []
        """The marks that have arrived."""

    # ── what the test does ────────────────────────────────────────────────────────────────────────────────────────

    def request(self, n: int) -> TestSinkProbe:
        """Request n more elements."""
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"request expects an integer of at least 1, got {n!r}")
        self._request.invoke(n)
        return self

    def request_next(self, expected: Any = _ANY) -> Any:
        """Request one element and return it; with an argument, check the element and return the probe."""
        self.request(1)
        return self.expect_next() if expected is _ANY else self.expect_next(expected)

    def cancel(self, cause: BaseException | None = None) -> TestSinkProbe:
        """Cancel the stream; without a cause, because no more elements are needed."""
        self._cancel.invoke(NO_MORE_ELEMENTS if cause is None else cause)
        return self

    # ── elements ──────────────────────────────────────────────────────────────────────────────────────────────────

    def expect_next(self, *expected: Any, timeout: Duration | None = None) -> Any:
        """Without arguments: return the next element. With some: check that these come next, in order, and return the probe.

        `timeout` (seconds, a timedelta or a string; default: the probe's) is for each element."""
        if not expected:
            return self._element("an element", timeout)
        for element in expected:
            got = self._element(f"element {element!r}", timeout)
            if not _equal(got, element):
                raise self._signals.unexpected(f"element {element!r}", OnNext(got))
        return self

    def expect_next_n(self, expected: int | Iterable[Any]) -> Any:
        """Given a number: return that many elements. Given elements: check that they come next, in order; return the probe."""
        if isinstance(expected, int):
            return [self._element(f"element {i + 1} of {expected}", None) for i in range(expected)]
        elements = list(expected)
        return self.expect_next(*elements) if elements else self

    def expect_next_unordered(self, *expected: Any) -> TestSinkProbe:
        """Check that exactly these elements come next, in any order."""
        return self.expect_next_unordered_n(expected)

    def expect_next_unordered_n(self, expected: Iterable[Any]) -> TestSinkProbe:
        """As `expect_next_unordered`."""
        missing = list(expected)
        while missing:
            got = self._element(f"one of {missing!r}", None)
            for i, element in enumerate(missing):
                if _equal(got, element):
                    del missing[i]
                    break
            else:
                raise self._signals.unexpected(f"one of {missing!r}", OnNext(got))
        return self

    def expect_next_where(self, predicate: Callable[[Any], Any]) -> Any:
        """Return the next element, for which `predicate` must be true."""
        got = self._element("an element", None)
        if not predicate(got):
            raise self._signals.unexpected(
                f"an element that {getattr(predicate, '__name__', predicate)} accepts", OnNext(got)
            )
        return got

    # ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def expect_next_pf(self, fn: Callable[[Any], U]) -> U:
        """Return `fn(element)` of the next element. Fails if the result is None or False, or if `fn` raises."""
        element = self._element("an element that the function answers", None)
        try:
            answer = fn(element)
        except Exception as error:
            raise AssertionError(
                f"expected an element that the function answers, got {element!r}: {error!r}"
            ) from error
        if answer is None or answer is False:
            raise AssertionError(f"expected an element that the function answers, got {element!r}: {answer!r}")
        return answer

    def expect_complete(self, timeout: Duration | None = None) -> TestSinkProbe:
        """Check that the stream completes next, within `timeout` (seconds, a timedelta or a string; default: the probe's)."""
        signal = self._next("completion", timeout)
        if not isinstance(signal, OnComplete):
            raise self._signals.unexpected("completion", signal)
        return self

    def expect_error(self, expected: type[BaseException] | BaseException | None = None) -> BaseException:
        """Return the error with which the stream fails next; given a class or an error, check it."""
        signal = self._next("a failure", None)
        if not isinstance(signal, OnError):
            raise self._signals.unexpected("a failure", signal)
        self._check_error(signal, expected)
        return signal.error

    def expect_subscription_and_complete(self, signal_demand: bool = True) -> TestSinkProbe:
        """Check that the stream completes without an element; with `signal_demand` one element is requested first."""
        self.ensure_subscription()
        if signal_demand:
            self.request(1)
        return self.expect_complete()

    def expect_subscription_and_error(
        self, expected: type[BaseException] | BaseException | None = None, signal_demand: bool = True
    ) -> BaseException:
        """Return the error with which the stream fails without an element; with `signal_demand` one element is requested first."""
        self.ensure_subscription()
        if signal_demand:
            self.request(1)
        return self.expect_error(expected)

    def expect_next_or_error(self, element: Any = _ANY, error: BaseException | None = None) -> Any:
        """Return the next element, or the error with which the stream fails; given expected values, check the one that arrives."""
        signal = self._next("an element or a failure", None)
        if isinstance(signal, OnError):
            self._check_error(signal, error)
            return signal.error
        return self._checked(signal, "an element or a failure", element)

    def expect_next_or_complete(self, element: Any = _ANY) -> Any:
        """Return the next element, or an OnComplete when the stream completes; given an element, check it."""
        signal = self._next("an element or completion", None)
        if isinstance(signal, OnComplete):
            return signal
        return self._checked(signal, "an element or completion", element)

    def expect_no_message(self, duration: Duration = "100ms") -> TestSinkProbe:
        """Check that no signal arrives for `duration` (seconds, a timedelta or a string). A virtual clock advances by `duration` instead."""
        self.ensure_subscription()
        self._signals.nothing(duration)
        return self

    # ── several ───────────────────────────────────────────────────────────────────────────────────────────────────

    def receive_while(
        self, predicate: Callable[[Any], Any], idle: Duration | None = None, messages: int | None = None
    ) -> list[Any]:
        """Return the elements for which `predicate` is true, up to the first other signal, which stays for the next call.

        Ends when no signal arrives for `idle` (seconds, a timedelta or a string; default: the timeout of the probe), or after `messages` elements."""
        self.ensure_subscription()
        got: list[Any] = []
        while messages is None or len(got) < messages:
            signal = self._signals.peek(self._signals._limit_s(idle))
            if not isinstance(signal, OnNext) or not predicate(signal.element):
                break
            self._signals.next("an element")
            got.append(signal.element)
        return got

    def receive_within(self, duration: Duration, messages: int | None = None) -> list[Any]:
        """Return the elements that come within `duration` (seconds, a timedelta or a string) of real time, at most `messages`."""
        self.ensure_subscription()
        until = time.monotonic() + duration_s(duration, "duration")
        got: list[Any] = []
        while messages is None or len(got) < messages:
            signal = self._signals.peek(until - time.monotonic())
            if not isinstance(signal, OnNext):
                break
            self._signals.next("an element")
            got.append(signal.element)
        return got

    def to_strict(self, at_most: Duration | None = None) -> list[Any]:
        """Request all elements and return them when the stream completes; raise the error of a failed stream.

        AssertionError after `at_most` (seconds, a timedelta or a string) of real time; without it after the probe's default timeout."""
        got: list[Any] = []
        at_most = Signals.default_timeout if at_most is None else at_most
        with self.within(at_most):
            self.request(1 << 30)
            while True:
                signal = self._next("completion", at_most)
                if isinstance(signal, OnNext):
                    got.append(signal.element)
                elif isinstance(signal, OnError):
                    raise signal.error
                else:
                    return got

    # ── plumbing ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _element(self, expected: str, timeout: Duration | None) -> Any:
        signal = self._next(expected, timeout)
        if not isinstance(signal, OnNext):
            raise self._signals.unexpected(expected, signal)
        return signal.element

    def _checked(self, signal: Signal, what: str, element: Any) -> Any:
        if not isinstance(signal, OnNext) or (element is not _ANY and not _equal(signal.element, element)):
            raise self._signals.unexpected(what if element is _ANY else f"element {element!r}", signal)
        return signal.element

    def _check_error(self, signal: OnError, expected: type[BaseException] | BaseException | None) -> None:
        if expected is None:
            return
        if isinstance(expected, type):
            if not isinstance(signal.error, expected):
                raise self._signals.unexpected(f"failure with a {expected.__name__}", signal)
        elif signal.error is not expected and signal.error != expected:
            raise self._signals.unexpected(f"failure with {expected!r}", signal)


def _equal(got: Any, expected: Any) -> bool:
    same = got == expected
    return bool(same) if isinstance(same, bool) else bool(getattr(same, "all", lambda: same)())
