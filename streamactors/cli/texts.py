"""Bytes and times as a person or a program reads them."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

from streamactors.text_log import printable


def json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """Return the field as text; bytes that are not text become base64 under another field name, so that the two cannot be confused."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode()}


def as_text(data: bytes | None) -> str | None:
    """Return bytes as text for a terminal; bytes that are not text, and control characters, are escaped."""
    return None if data is None else printable(data.decode(errors="backslashreplace"))


def as_time(timestamp_ms: int | None) -> str | None:
    """Return ms since 1970 as a time in UTC; a time beyond the year 9999, such as microseconds taken for ms, stays a number."""
    if timestamp_ms is None:
        return None
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(" ", "milliseconds").removesuffix("+00:00") + "Z"


def counted(number: int, noun: str, nouns: str | None = None) -> str:
    """Return a number with its noun: "1 record", "2000 records". `nouns`: the plural, if it is not noun + "s"."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"
