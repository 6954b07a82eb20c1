"""Clocks: the system's, and a virtual one that tests move by hand.

Everything that waits takes the time from a Clock, so a test runs through hours in microseconds. Every name with a
time says its unit; spans that users write are in `durations.py`.
"""

from __future__ import annotations

import threading
import time
from typing import Final, Protocol

from streamactors.durations import Duration, duration_ms
from streamactors.errors import StreamActorsError

_OUTSIDE_S: Final = 0.002
"""How long to wait before parts outside are asked again."""


class Clock(Protocol):
    """A source of time."""

    def now_ms(self) -> float:
        """Return monotonic milliseconds; the origin has no meaning."""
        ...

    def wall_ms(self) -> int:
        """Return milliseconds since 1970-01-01 UTC."""
        ...


class SystemClock:
    """The machine's clocks: monotonic and wall."""

    __slots__ = ()

    # freezegun replaces names of modules while a test runs -> timers set in real time would be compared with a frozen time.
    # It does not look into classes.
    _monotonic = staticmethod(time.monotonic)
    _time_ns = staticmethod(time.time_ns)

    def now_ms(self) -> float:
        return self._monotonic() * 1000.0

    def wall_ms(self) -> int:
        return self._time_ns() // 1_000_000

    def __repr__(self) -> str:
        return "SystemClock()"


class ClockMember(Protocol):
    """A part that runs by a virtual clock: a dispatcher, a pool, an asyncio loop."""

    @property
    def name(self) -> str: ...

    def next_deadline_ms(self) -> float | None:
        """Return when its next timer is due; None without timers."""
        ...

    def clock_moved(self) -> None:
        """The time has changed: run the due timers. Must not wait."""
        ...

    def quiet_since(self) -> int | None:
        """Return a number that changes with every piece of work; None while work is queued or running."""
        ...


class Outside(Protocol):
    """A part whose work does not run by the clock, such as a client library with threads of its own."""

    @property
    def name(self) -> str: ...

    def at_rest(self) -> int | None:
        """Return a number that changes whenever the part hands work to a member; None while such work is on its way.

        Called on the thread that moves the clock. The call may ask other processes, and may wait for their answers."""
        ...


class NotQuiescent(StreamActorsError, TimeoutError):
    """Virtual time could not move because work did not end."""


class VirtualClock:
    """A clock that moves only by `advance`.

    `advance` goes from one due timer to the next, in order, over all dispatchers and pools that run by this clock. After
    each step it waits until none of them has work queued or running, and until every part outside, such as a Kafka client,
    is at rest. So the work that a step started is complete before the time moves on, and an hour of timers costs only the
    work done in it.
    """

    def __init__(self, start_ms: float = 0.0, wall_start_ms: int = 1_600_000_000_000) -> None:
        self._now_ms = float(start_ms)
        self._wall_offset_ms = wall_start_ms - self._now_ms
        self._members: list[ClockMember] = []
        self._carriers: list[ClockMember] = []
        self._outside: list[Outside] = []
        self._beginnings = 0
        self._lock = threading.Lock()
        self._advancing = threading.Lock()
        self._progress = threading.Event()

    def now_ms(self) -> float:
        return self._now_ms

    def wall_ms(self) -> int:
        return int(self._now_ms + self._wall_offset_ms)

    def __repr__(self) -> str:
        return f"VirtualClock({self._now_ms:g} ms)"

    def attach(self, member: ClockMember, *, carries: bool = False) -> None:
        """Add a member: `advance` moves its timers and waits for it. `carries`: it moves the elements of streams."""
        with self._lock:
            self._members.append(member)
            if carries:
                self._carriers.append(member)

    def detach(self, member: ClockMember) -> None:
        """Forget the member. Unknown ones are ignored."""
        with self._lock:
            self._members = [other for other in self._members if other is not member]
            self._carriers = [other for other in self._carriers if other is not member]
        self._progress.set()

    def attach_outside(self, part: Outside) -> None:
        """Add a part that `advance` waits for, unless it is attached already."""
        with self._lock:
            if part not in self._outside:
                self._outside.append(part)

    def detach_outside(self, part: Outside) -> None:
        """Forget the part. Unknown ones are ignored."""
        with self._lock:
            self._outside = [other for other in self._outside if other is not part]

    def work_of_streams(self) -> tuple[int | None, ...]:
        """Return a value that changes with every piece of work on elements, and at the beginning and the end of every `advance`."""
        return self._beginnings, *(member.quiet_since() for member in self._carriers)

    def notify(self) -> None:
        """Called by a member that has run out of work. Wakes `advance` only when no member has work, which saves a thread switch."""
        if self._quiet_numbers() is not None:
            self._progress.set()

    def advance(self, duration: Duration = 0, *, patience_s: float = 30.0) -> None:
        """Move the time forward by `duration` (seconds, a timedelta or a string such as "1h"); fire what comes due.

        With 0 it only waits until everything has come to rest. Raises NotQuiescent if a member stays busy for
        `patience_s` real seconds at one moment of virtual time, StreamActorsError on a thread that it would have to wait
        for, and ValueError for a negative duration.
        """
        length_ms = duration_ms(duration, "VirtualClock.advance: duration")
        if length_ms < 0:
            raise ValueError(f"VirtualClock.advance: time does not go back; {duration!r} is negative")
        for member in self._members:
            if getattr(member, "in_thread", _never)():
                raise StreamActorsError(
                    f"VirtualClock.advance was called on a thread of {member.name!r}, for which it would have to wait"
                )
        with self._advancing:
            target_ms = self._now_ms + length_ms
            self._beginnings += 1
            self._settle(patience_s)
            while True:
                due_ms = self._next_deadline_ms()
                if due_ms is None or due_ms > target_ms:
                    break
                self._move_to(due_ms, patience_s)
            self._beginnings += 1
            self._move_to(target_ms, patience_s)

    def settle(self, *, patience_s: float = 30.0) -> None:
        """Wait until everything that runs by this clock has come to rest; the time does not advance."""
        self.advance(0, patience_s=patience_s)

    def _next_deadline_ms(self) -> float | None:
        deadlines = [due for member in self._members if (due := member.next_deadline_ms()) is not None]
        return min(deadlines, default=None)

    def _move_to(self, when_ms: float, patience_s: float) -> None:
        self._now_ms = max(self._now_ms, when_ms)
        for member in self._members:
            member.clock_moved()
        self._settle(patience_s)

    def _settle(self, patience_s: float) -> None:
        give_up = time.monotonic() + patience_s
        while True:
            self._wait_until_quiet(patience_s, give_up)
            before = self._rest_numbers()
            if before is not None:
                # A part that was asked early may have got work from one that was asked late. All members are quiet again and
                # no part has handed over anything, so nothing is under way between them.
                self._wait_until_quiet(patience_s, give_up)
                if before == self._rest_numbers():
                    return
            if time.monotonic() > give_up:
                busy = [part.name for part in self._outside if part.at_rest() is None]
                raise NotQuiescent(
                    f"virtual time {self._now_ms:g} ms: not at rest after {patience_s:g} s: {', '.join(busy) or 'parts outside'}; "
                    "look at the broker that they talk to"
                )
            self._progress.wait(_OUTSIDE_S)

    def _wait_until_quiet(self, patience_s: float, give_up: float) -> None:
        while True:
            self._progress.clear()
            before = self._quiet_numbers()
            # All members were quiet at two looks, with equal numbers: none worked in between, so all were quiet at the
            # same moment.
            if before is not None and before == self._quiet_numbers():
                return
            if time.monotonic() > give_up:
                busy = [member.name for member in self._members if member.quiet_since() is None]
                raise NotQuiescent(
                    f"virtual time {self._now_ms:g} ms: still busy after {patience_s:g} s: "
                    f"{', '.join(busy) or 'everything on and off'}; a stream that never waits cannot come to rest: "
                    "throttle it, or stop it first"
                )
            if before is None:
                self._progress.wait(0.05)

    def _rest_numbers(self) -> list[int] | None:
        numbers = []
        for part in self._outside:
            number = part.at_rest()
            if number is None:
                return None
            numbers.append(number)
        return numbers

    def _quiet_numbers(self) -> list[int] | None:
        numbers = []
        for member in self._members:
            number = member.quiet_since()
            if number is None:
                return None
            numbers.append(number)
        return numbers


def _never() -> bool:
    return False


SECONDS_FROM: Final = 1_000_000_000
SECONDS_TO: Final = 5_000_000_000
"""Timestamps in this range are most likely in seconds."""


def told_as_seconds(timestamp: int) -> str | None:
    """Return the sentence that a timestamp is most likely in seconds: the seconds of the years 2001 to 2128, taken for ms, lie early in
    1970. None for other timestamps."""
    if not SECONDS_FROM <= timestamp < SECONDS_TO:
        return None
    return (
        f"the timestamp {timestamp} lies in January or February 1970, because timestamps are ms since 1970; if it is in seconds, "
        "multiply it by 1000"
    )
