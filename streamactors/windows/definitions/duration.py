"""Durations in event time: "150ms", "2m", "1h30m", 5_000 (milliseconds), timedelta.

The result is always an int of milliseconds, because timestamps are whole milliseconds."""

from __future__ import annotations

from datetime import timedelta
from typing import Final, TypeAlias

from streamactors.clock import duration_ms
from streamactors.errors import BuildError

Duration: TypeAlias = str | int | timedelta

MAX_MS: Final = (1 << 63) - 1  # timestamps and spans are signed 64-bit milliseconds, as in Kafka
_WAY_OUT: Final = 'write it as "150ms", "2m", 5000 (milliseconds) or timedelta(seconds=5)'


def to_ms(duration: Duration, what: str, *, minimum: int = 0) -> int:
    """Return `duration` in whole milliseconds.

    `what` names the parameter in the error. Raises BuildError (a ValueError) for anything that is not a span of time,
    is finer than a millisecond, or is smaller than `minimum`."""
    ms = _whole(_parse(duration, what), duration, what)
    if ms < minimum:
        need = "not be negative" if minimum == 0 else f"be at least {minimum} ms"
        raise BuildError(f"{what} is {duration!r}: it must {need}; {_WAY_OUT}")
    if ms > MAX_MS:
        raise BuildError(f"{what} is {duration!r}: more than {MAX_MS} ms does not fit in 64 bits")
    return ms


def _parse(duration: object, what: str) -> int | float:
    """Milliseconds; a float may not be whole."""
    if isinstance(duration, int) and not isinstance(duration, bool):
        return int(duration)
    if isinstance(duration, timedelta):
        ms, rest = divmod(duration, timedelta(milliseconds=1))
        return ms + 0.5 if rest else ms
    if isinstance(duration, str):
        try:
            return duration_ms(duration)
        except ValueError as error:
            raise BuildError(f"{what} is {duration!r}, which is no duration; {_WAY_OUT}") from error
    raise BuildError(f"{what} is {duration!r}, which is no duration; {_WAY_OUT}")


def _whole(ms: int | float, duration: object, what: str) -> int:
    if isinstance(ms, float) and not ms.is_integer():
        raise BuildError(f"{what} is {duration!r}: event time is counted in whole milliseconds; round it first")
    return int(ms)
