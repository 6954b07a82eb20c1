"""Elements of a stream as a reader of a replay sees them: one line each, and what they say about key, window and value."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, NamedTuple

from streamactors.engine.user_code import shortened, shortened_text
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.windows.record import Record, WindowedRecord

WIDTH = 160
"""The most characters of an element that are shown."""


class Window(NamedTuple):
    """The window that a result belongs to: its key as text, its bounds in ms since 1970."""

    key: str
    start_ms: int
    end_ms: int


def element_text(element: Any) -> str:
    """Return an element on one line. Never raises."""
    try:
        return shortened_text(_text(element), WIDTH)
    except Exception:  # noqa: BLE001  # of the user's __repr__
        return shortened(element, WIDTH)


def window_of(element: Any) -> Window | None:
    """Return the window of a result; None for other elements."""
    if not isinstance(element, WindowedRecord):
        return None
    return Window(shortened(element.key), element.start, element.end)


def span_text(start_ms: int, end_ms: int) -> str:
    """Return the bounds of a window: `12:26:00 – 12:27:00`, with the date before where the window is on another day than 1970."""
    start, end = clock_text(start_ms), clock_text(end_ms)
    date, _, time = start.partition(" ")
    same = end.startswith(f"{date} ")
    return f"{date} {time} – {end.partition(' ')[2] if same else end}"


def clock_text(ms: int) -> str:
    """Return a time in UTC, without a fraction where it is a whole second."""
    try:
        moment = datetime.fromtimestamp(ms / 1_000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{ms} ms"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{ms % 1_000:03}" if ms % 1_000 else "")


def _text(element: Any) -> str:
    if isinstance(element, WindowedRecord):
        final = "  final" if element.is_final else ""
        return f"{element.key!r}  [{span_text(element.start, element.end)})  {element.value!r}{final}"
    if isinstance(element, ProducerRecord):
        return f"to {element.topic}  {_pair(element.key, element.value)}"
    if isinstance(element, Record | ConsumerRecord):
        return _pair(element.key, element.value)
    return repr(element)


def _pair(key: Any, value: Any) -> str:
    return f"{bytes_text(key)} = {'tombstone' if value is None else bytes_text(value)}"


def bytes_text(found: Any) -> str:
    """Return bytes as text in quotes, if they are text; everything else as Python writes it."""
    if isinstance(found, bytes):
        try:
            return repr(found.decode())
        except UnicodeDecodeError:
            pass
    return repr(found)
