"""Bytes and times as a person or a program reads them."""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Final

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and line feed


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return the field as text; bytes that are no text become base64 under another field name, so that the two cannot be confused."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def as_text(data: bytes | None) -> str | None:
    """Return bytes as text for a terminal; bytes that are no text, and control characters, are escaped."""
    return None if data is None else _CONTROL.sub(_escaped, data.decode(errors="backslashreplace"))


def as_time(timestamp_ms: int | None) -> str | None:
    """Return ms since 1970 as a time in UTC; a time beyond the year 9999, such as microseconds taken for ms, stays a number."""
    if timestamp_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00") + "Z"


def time_ms(text: str) -> int:
    """Return ms since 1970 of a time such as 2026-01-31T12:00, in UTC unless the text has an offset. An earlier time counts as
    1970, because negative times have special meanings for a broker. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, int(moment.timestamp() * 1000))


def _escaped(match: re.Match[str]) -> str:
    return f"\\x{ord(match[0]):02x}"
