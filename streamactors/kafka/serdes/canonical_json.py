"""JSON in the one form that RFC 8785 gives each value: equal values have equal bytes in every language.

Object keys are sorted by their UTF-16 code units, there are no spaces, strings are UTF-8 with the fewest escapes, and numbers have the shortest
form of ECMAScript: 1.0 is 1, 1e30 is 1e+30. Integers beyond 2**53, NaN and infinities have no such form and are refused."""

from __future__ import annotations

import json
import math
from typing import Any, Final

_string: Final = json.JSONEncoder(ensure_ascii=False).encode
_LARGEST: Final = 1 << 53


def canonical_json(value: Any) -> bytes:
    """Return the bytes of a value. Raises TypeError or ValueError for a value without a canonical form."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode()


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, str):
        parts.append(_string(value))
    elif value is None or isinstance(value, bool):
        parts.append("null" if value is None else "true" if value else "false")
    elif isinstance(value, int):
        if not -_LARGEST <= value <= _LARGEST:
            raise ValueError(f"{value} is beyond 2**53, where JSON numbers are not exact; write it as a string")
        parts.append(int.__repr__(value))
    elif isinstance(value, float):
        parts.append(_number(value))
    elif isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} of an object is a {type(key).__name__}, not a str")
        comma = "{"
        for key in sorted(value, key=lambda key: key.encode("utf-16-be")):
            parts.append(f"{comma}{_string(key)}:")
            _write(value[key], parts)
            comma = ","
        parts.append("}" if value else "{}")
    elif isinstance(value, list | tuple):
        comma = "["
        for each in value:
            parts.append(comma)
            _write(each, parts)
            comma = ","
        parts.append("]" if value else "[]")
    else:
        raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


def _number(value: float) -> str:
    """Return a float as ECMAScript's Number.prototype.toString writes it."""
    if not math.isfinite(value):
        raise ValueError(f"{value} is not a JSON number")
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    mantissa, _, exponent = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = "" if fraction == "0" else fraction
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) if whole != "0" else len(digits) - len(fraction) + int(exponent or 0)
    digits = digits.rstrip("0")
    if len(digits) <= point <= 21:
        return f"{sign}{digits}{'0' * (point - len(digits))}"
    if 0 < point <= 21:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    rest = f".{digits[1:]}" if len(digits) > 1 else ""
    return f"{sign}{digits[0]}{rest}e{point - 1:+d}"
