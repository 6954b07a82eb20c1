"""The signals that a probe has seen, in a queue for the thread of the test."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from streamactors.clock import Clock, VirtualClock
from streamactors.durations import Duration, duration_s


@dataclass(frozen=True)
class OnSubscribe:
    """The stage has started."""

    def __str__(self) -> str:
        return "the subscription"


@dataclass(frozen=True)
class OnNext:
    """An element."""

    element: Any

    def __str__(self) -> str:
        return f"element {self.element!r}"


@dataclass(frozen=True)
class OnComplete:
    """The stream has completed."""

    def __str__(self) -> str:
        return "completion"


@dataclass(frozen=True)
class OnError:
    """The stream has failed."""

    error: BaseException

    def __str__(self) -> str:
        return f"failure with {self.error!r}"


@dataclass(frozen=True)
class OnRequest:
    """Downstream requests n more elements."""

    n: int

    def __str__(self) -> str:
        return f"a request for {self.n}"


@dataclass(frozen=True)
class OnCancel:
    """Downstream has cancelled."""

    cause: BaseException

    def __str__(self) -> str:
        return f"cancellation with {self.cause!r}"


Signal = OnSubscribe | OnNext | OnComplete | OnError | OnRequest | OnCancel


class Signals:
    """The thread of the stage puts signals, the thread of the test takes them. Timeouts use the real clock, so a test ends."""

    default_timeout: ClassVar[Duration] = "3s"
    """The limit of a probe without one of its own. The option `streamactors_probe_timeout` of pytest sets it."""

    def __init__(self, owner: str, timeout: Duration | None = None) -> None:
        self._owner = owner
        self._timeout_s = duration_s(self.default_timeout if timeout is None else timeout, "timeout")
        self._changed = threading.Condition()
        self._waiting: deque[Signal] = deque()
        self._seen: deque[Signal] = deque(maxlen=5)
        self._deadline: float | None = None  # of the `within` block
        self.clock: Clock | None = None  # known when the stage has started

    def put(self, signal: Signal) -> None:
        """Add a signal; the stage's thread."""
        with self._changed:
            self._waiting.append(signal)
            self._changed.notify_all()

    def next(self, expected: str, timeout: Duration | None = None) -> Signal:
        """Take the next signal. Raises AssertionError, which names the `expected` signal, on a timeout."""
        signal = self._take(self._limit_s(timeout))
        if signal is None:
            hint = ""
            if isinstance(self.clock, VirtualClock):
                hint = "; the system's clock is virtual: advance it if time has to pass"
            raise AssertionError(f"{self._owner}: expected {expected}, but nothing came in time{self.history()}{hint}")
        return signal

    def peek(self, seconds: float) -> Signal | None:
        """Return the next signal without taking it; None when there is none within `seconds`."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting, timeout=max(0.0, seconds))
            return self._waiting[0] if self._waiting else None

    def _take(self, seconds: float) -> Signal | None:
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting, timeout=max(0.0, seconds)):
                return None
            signal = self._waiting.popleft()
            self._seen.append(signal)
            return signal

    def nothing(self, duration: Duration) -> None:
        """Check that no signal arrives for `duration` (seconds, a timedelta or a string). A virtual clock advances by `duration` instead."""
        if isinstance(self.clock, VirtualClock):
            self.clock.advance(duration)
            signal = self.peek(0)
        else:
            signal = self.peek(duration_s(duration, "duration"))
        if signal is not None:
            raise AssertionError(f"{self._owner}: expected nothing for {duration}, got {signal}{self.history()}")

    def unexpected(self, expected: str, got: Signal) -> AssertionError:
        """Return the error of a signal that was not expected."""
        return AssertionError(f"{self._owner}: expected {expected}, got {got}{self.history(but_last=True)}")

    def history(self, but_last: bool = False) -> str:
        """Return the last signals taken, for messages."""
        seen = list(self._seen)[: -1 if but_last else None]
        return f" (before: {', '.join(map(str, seen))})" if seen else ""

    def _limit_s(self, timeout: Duration | None) -> float:
        limit = self._timeout_s if timeout is None else duration_s(timeout, "timeout")
        if self._deadline is not None:
            limit = min(limit, self._deadline - time.monotonic())
        return limit

    @contextmanager
    def within(self, limit: Duration) -> Iterator[None]:
        """Fail if the block takes longer than `limit` (seconds, a timedelta or a string) of real time; waits inside end at the limit."""
        outer = self._deadline
        began = time.monotonic()
        own = began + duration_s(limit, "limit")
        self._deadline = own if outer is None else min(outer, own)
        try:
            yield
        finally:
            self._deadline = outer
        if time.monotonic() > own:
            raise AssertionError(f"{self._owner}: the block took longer than {limit}")


class Probe:
    """What the probes of both ends have: the signals of their stage, and the wait for its start."""

    __test__ = False  # pytest must not collect it

    def __init__(self, owner: str, timeout: Duration | None) -> None:
        self._signals = Signals(owner, timeout)
        self._subscribed = False

    def ensure_subscription(self) -> Self:
        """Wait until the stage has started."""
        if not self._subscribed:
            signal = self._signals.next("the subscription")
            if not isinstance(signal, OnSubscribe):
                raise self._signals.unexpected("the subscription", signal)
            self._subscribed = True
        return self

    def within(self, limit: Duration) -> AbstractContextManager[None]:
        """Fail if the block takes longer than `limit` (seconds, a timedelta or a string) of real time."""
        return self._signals.within(limit)

    def _next(self, expected: str, timeout: Duration | None) -> Signal:
        self.ensure_subscription()
        return self._signals.next(expected, timeout)
