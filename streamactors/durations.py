"""Spans of time as users write them: `Duration` where somebody waits, `EventSpan` where timestamps are compared.

A string ("250ms", "1.5s", "1h30m", "7d", "5 seconds") and a timedelta mean the same in both. A bare number of a Duration is
seconds, as everywhere in Python; a bare number of an EventSpan is milliseconds, the unit of timestamps."""

from __future__ import annotations

import math
import re
import sys
import warnings
from datetime import timedelta
from types import FrameType
from typing import Final, TypeAlias

from streamactors.errors import BuildError

Duration: TypeAlias = float | int | str | timedelta
"""How long somebody waits: a number of seconds, a timedelta, or a string such as "250ms"."""

EventSpan: TypeAlias = int | str | timedelta
"""A span between timestamps: a whole number of milliseconds, a timedelta, or a string such as "250ms"."""

MAX_MS: Final = (1 << 63) - 1  # timestamps and event spans are signed 64-bit milliseconds, as in Kafka

_UNIT_MS: Final = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_WORDS: Final = {"millisecond": "ms", "second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
_PART: Final = re.compile(rf"\s*(\d+(?:\.\d+)?)\s*(?:({'|'.join(_WORDS)})s?\b|(ms|s|m|h|d|w))\s*")

_WAY_OUT: Final = 'write it as "150ms", "2m", 5 (seconds) or timedelta(seconds=5)'
_EVENT_WAY_OUT: Final = 'write it as "150ms", "2m", 5000 (milliseconds) or timedelta(seconds=5)'

_DOUBTFUL_S: Final = 60_000
"""A wait of so many seconds, most of a day, is most likely meant in milliseconds."""
_DAY_S: Final = 86_400
_DOUBTFUL_MS: Final = 100
"""An event span below so many milliseconds is most likely meant in seconds."""
_ROUND_SECONDS: Final = frozenset({120, 300, 600, 900, 1_800, 3_600, 7_200, 86_400, 604_800})
"""Minutes, hours, a day and a week in seconds: nobody has windows of so many milliseconds."""


def duration_s(value: Duration, what: str) -> float:
    """Return the duration in seconds. A number may be infinite.

    `what` names the parameter in errors. Raises ValueError or TypeError, naming the value, if it is no duration."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str):
        return _parsed_or_error(value, what) / 1_000
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{what}: not a duration: {value!r}; {_WAY_OUT}")
    if math.isnan(value):
        raise ValueError(f"{what}: not a duration: nan; {_WAY_OUT}")
    if _DOUBTFUL_S <= value < math.inf and value % _DAY_S:
        _question(
            what,
            value,
            "a bare number of a wait is seconds",
            f"{value / 3_600:,.1f} hours",
            _text(value),
            _text(value * 1_000),
        )
    return float(value)


def duration_ms(value: Duration, what: str) -> float:
    """Return the duration in milliseconds. Raises as `duration_s`, and ValueError for an infinite number, too."""
    if isinstance(value, timedelta):
        return value.total_seconds() * 1_000
    if isinstance(value, str):
        return _parsed_or_error(value, what)
    seconds = duration_s(value, what)
    if math.isinf(seconds):
        raise ValueError(f"{what}: not a duration: {value!r}; it must be finite")
    return round(seconds * 1_000, 6)  # 1.001 s is 1001 ms


def whole_ms(value: Duration, what: str, *, minimum: int = 0) -> int:
    """Return the duration in whole milliseconds.

    `what` names the parameter in errors. Raises BuildError (a ValueError) for anything that is no duration, is finer than a
    millisecond, or is smaller than `minimum`."""
    try:
        ms = duration_ms(value, what)
    except (TypeError, ValueError) as error:
        raise BuildError(str(error)) from None
    return _checked(ms, value, what, minimum, _WAY_OUT)


def event_ms(value: EventSpan, what: str, *, minimum: int = 0) -> int:
    """Return the span in whole milliseconds. Raises as `whole_ms`; a float is no EventSpan."""
    if isinstance(value, int) and not isinstance(value, bool):
        if 0 < abs(value) < _DOUBTFUL_MS or value in _ROUND_SECONDS:
            _question(
                what,
                value,
                "a bare number of event time is milliseconds",
                f"{value} ms",
                _text(value * 1_000),
                _text(value),
            )
        ms: int | float = value
    elif isinstance(value, timedelta):
        whole, rest = divmod(value, timedelta(milliseconds=1))
        ms = whole + 0.5 if rest else whole
    elif isinstance(value, str) and (parsed := _parsed_ms(value)) is not None:
        ms = parsed
    else:
        raise BuildError(f"{what} is {value!r}, which is not a duration; {_EVENT_WAY_OUT}")
    return _checked(ms, value, what, minimum, _EVENT_WAY_OUT)


def _checked(ms: int | float, value: object, what: str, minimum: int, way_out: str) -> int:
    if isinstance(ms, float) and not ms.is_integer():
        raise BuildError(f"{what} is {value!r}: it is counted in whole milliseconds; round it first")
    if ms < minimum:
        need = "not be negative" if minimum == 0 else f"be at least {minimum} ms"
        raise BuildError(f"{what} is {value!r}: it must {need}; {way_out}")
    if ms > MAX_MS:
        raise BuildError(f"{what} is {value!r}: more than {MAX_MS} ms does not fit in 64 bits")
    return int(ms)


def _parsed_or_error(text: str, what: str) -> float:
    ms = _parsed_ms(text)
    if ms is None:
        raise ValueError(f"{what}: not a duration: {text!r}; {_WAY_OUT}")
    return ms


def _parsed_ms(text: str) -> float | None:
    total, position = 0.0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None:
            return None
        total += float(part[1]) * _UNIT_MS[_WORDS[part[2]] if part[2] else part[3]]
        position = part.end()
    return total if text else None


def _question(what: str, value: float, rule: str, meaning: str, other: str, this: str) -> None:
    """Warn at the line of the user's call. By default Python shows the warning of a line once."""
    frame = _user_frame()
    if frame is not None:
        warnings.warn_explicit(
            f'{what} is {value!r}: {rule}, so this is {meaning}; write "{other}" if that was meant, otherwise "{this}"',
            UserWarning,
            frame.f_code.co_filename,
            frame.f_lineno,
            registry=frame.f_globals.setdefault("__warningregistry__", {}),
        )


def _user_frame() -> FrameType | None:
    """Return the innermost frame outside the package and the standard library; None on a thread of the package."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _is_library(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    return frame


def _is_library(module: str) -> bool:
    return module.startswith("streamactors.") or module.partition(".")[0] in sys.stdlib_module_names


def _text(ms: float) -> str:
    """Return so many milliseconds as a string that is a duration."""
    value, unit = (ms / 1_000, "s") if ms % 1_000 == 0 else (ms, "ms")
    return f"{int(value) if value == int(value) else value}{unit}"
