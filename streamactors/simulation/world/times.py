"""What tells the time and sleeps, replaced in a world: `time` and the `now` of `datetime`.

Owner: the patches. Each function does what it replaces on threads outside the world, so one that is kept after the run is harmless.
The time of a day begins at `BEGIN_S` in UTC and may be shifted per instance."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from datetime import date as _date
from datetime import datetime as _datetime
from math import ceil
from typing import Any, Final

from streamactors.simulation.world.here import here

BEGIN_S: Final = 1_600_000_000
"""The wall time at which every world begins: 2020-09-13 12:26:40 UTC."""

_sleep = time.sleep
shifts_us: dict[str, int] = {}
"""How far the wall clock of an instance is off."""


def wall_us(instance: str, now_us: int) -> int:
    """Return µs since 1970-01-01 UTC on the clock of an instance."""
    return BEGIN_S * 1_000_000 + now_us + shifts_us.get(instance, 0)


def sleep(seconds: float) -> None:
    """As `time.sleep`, in virtual time. 0 lets other tasks run."""
    scheduler = here()
    if scheduler is None:
        _sleep(seconds)
    elif seconds < 0:
        raise ValueError("sleep length must be non-negative")
    elif seconds == 0:
        scheduler.give_way()
    else:
        scheduler.park("a sleep", scheduler.now_us + ceil(seconds * 1e6))


def _monotonic(real: Callable[[], Any], scale: Callable[[int], Any]) -> Callable[[], Any]:
    def read() -> Any:
        scheduler = here()
        return real() if scheduler is None else scale(scheduler.read_clock())

    read.__name__ = read.__qualname__ = real.__name__
    return read


def _wall(real: Callable[[], Any], scale: Callable[[int], Any]) -> Callable[[], Any]:
    def read() -> Any:
        scheduler = here()
        if scheduler is None:
            return real()
        task = scheduler.current
        return scale(wall_us("" if task is None else task.instance, scheduler.read_clock()))

    read.__name__ = read.__qualname__ = real.__name__
    return read


def _of_now(real: Callable[..., Any]) -> Callable[..., Any]:
    def convert(seconds: float | None = None) -> Any:
        return real(time_s() if seconds is None else seconds)

    convert.__name__ = convert.__qualname__ = real.__name__
    return convert


def _seconds(us: int) -> float:
    return us / 1e6


def _ns(us: int) -> int:
    return us * 1_000


time_s = _wall(time.time, _seconds)
monotonic = _monotonic(time.monotonic, _seconds)
_clock_gettime, _clock_gettime_ns = time.clock_gettime, time.clock_gettime_ns
_cpu_clock = getattr(time, "pthread_getcpuclockid", None)


def _clock(real: Callable[[int], Any], scale: Callable[[int], Any]) -> Callable[[int], Any]:
    def read(clock: int) -> Any:
        scheduler = here()
        if scheduler is None:
            return real(clock)
        now_us = scheduler.read_clock()
        return scale(wall_us("", now_us) if clock == time.CLOCK_REALTIME else now_us)

    return read


def _cpu_clock_id(ident: int) -> int:
    if here() is None and _cpu_clock is not None:
        return int(_cpu_clock(ident))
    return (
        time.CLOCK_THREAD_CPUTIME_ID
    )  # an ident of a task is no thread, and asking the OS for its clock would crash the process


class _DatetimeType(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _datetime)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _datetime)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return _datetime(*arguments, **named)


class WorldDatetime(_datetime, metaclass=_DatetimeType):
    """`datetime.datetime` whose `now` is the world's. It makes real datetimes, so none of its own ever leaves the world."""

    @classmethod
    def now(cls, tz: datetime.tzinfo | None = None) -> Any:
        """Return the time of the calling instance's wall clock."""
        if here() is None:
            return _datetime.now(tz)
        return _datetime.fromtimestamp(time_s(), tz)

    @classmethod
    def utcnow(cls) -> Any:
        """Return the time in UTC without a zone."""
        return cls.now(datetime.UTC).replace(tzinfo=None)

    today = now


class _DateType(_DatetimeType):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, _date)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _date)

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        return _date(*arguments, **named)


class WorldDate(_date, metaclass=_DateType):
    """`datetime.date` whose `today` is the world's."""

    @classmethod
    def today(cls) -> Any:
        """Return the date of the calling instance's wall clock."""
        return _date.today() if here() is None else _date.fromtimestamp(time_s())


def make_datetime(*state: Any) -> _datetime:
    """Make a pickled datetime again."""
    return _datetime(*state)


def make_date(*state: Any) -> _date:
    """Make a pickled date again."""
    return _date(*state)


def reducers() -> dict[type, Callable[[Any], Any]]:
    """Return how datetimes and dates are pickled in a world: by name, pickle would find the replaced class and refuse."""
    return {
        _datetime: lambda value: (make_datetime, value.__reduce_ex__(4)[1]),
        _date: lambda value: (make_date, value.__reduce_ex__(4)[1]),
    }


def replacements() -> list[tuple[object, object]]:
    """Return (original, replacement) for everything that tells the time."""
    found: list[tuple[object, object]] = [
        (_sleep, sleep),
        (time.time, time_s),
        (time.monotonic, monotonic),
        (time.time_ns, _wall(time.time_ns, _ns)),
        (time.localtime, _of_now(time.localtime)),
        (time.gmtime, _of_now(time.gmtime)),
        (time.clock_gettime, _clock(time.clock_gettime, _seconds)),
        (time.clock_gettime_ns, _clock(time.clock_gettime_ns, _ns)),
        (_datetime, WorldDatetime),
        (_date, WorldDate),
    ]
    seconds = (time.perf_counter, time.process_time, time.thread_time)
    nanoseconds = (time.monotonic_ns, time.perf_counter_ns, time.process_time_ns, time.thread_time_ns)
    found += [(real, _monotonic(real, _seconds)) for real in seconds]
    found += [(real, _monotonic(real, _ns)) for real in nanoseconds]
    if _cpu_clock is not None:
        found.append((_cpu_clock, _cpu_clock_id))
    return found
