"""Server-sent events: the events of a stream of bytes, and their bytes. Source: the WHATWG HTML standard, section 9.2."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT
from streamactors.engine.stage import Stage
from streamactors.engine.user_code import shortened
from streamactors.errors import FramingError
from streamactors.stages.bases.cutting import CuttingLogic
from streamactors.stages.bases.elementwise import ElementwiseLogic
from streamactors.stages.checks import positive
from streamactors.stages.defaults import LONGEST_EVENT


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event of a server."""

    data: str
    """The text of the event."""
    event: str = "message"
    """The name of the event."""
    id: str = ""
    """The last event id that the server has set."""
    retry_ms: int | None = None
    """The wait before a new connection, if the server has set one."""


class EventParser:
    """Bytes in any pieces to events. Bytes after the last empty line are not an event, as the standard says."""

    def __init__(self, operator: str, max_length: int) -> None:
        self._operator = operator
        self._most = max_length
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._line = ""  # the unfinished line
        self._after_cr = False
        self._data: list[str] = []
        self._size = 0
        self._event = ""
        self.last_id = ""
        self.retry_ms: int | None = None
        self._retry_of_event: int | None = None

    @property
    def unfinished(self) -> bool:
        """True while bytes of an event that has not ended are inside."""
        return bool(self._line or self._size or self._event or self._decoder.getstate()[0])

    def feed(self, data: bytes, events: list[Any]) -> None:
        """Append the events that end in `data`. Raises FramingError for an event beyond the limit."""
        text = self._decoder.decode(data)
        if self._after_cr and text:
            text = text.removeprefix("\n")
            self._after_cr = False
        if not text:
            return
        self._after_cr = text.endswith("\r")
        *lines, rest = (self._line + text.replace("\r\n", "\n").replace("\r", "\n")).split("\n")
        for line in lines:
            if line:
                self._field(line)
            else:
                self._dispatch(events)
        self._line = rest
        if self._size + len(rest) > self._most:
            raise self._too_long()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._size += len(value) + 1
            if self._size > self._most:
                raise self._too_long()
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id" and "\0" not in value:
            self.last_id = value
        elif name == "retry" and value.isascii() and value.isdigit():
            self.retry_ms = self._retry_of_event = int(value[:12])

    def _dispatch(self, events: list[Any]) -> None:
        if self._data:
            events.append(
                ServerSentEvent("\n".join(self._data), self._event or "message", self.last_id, self._retry_of_event)
            )
        self._data = []
        self._size = 0
        self._event = ""
        self._retry_of_event = None

    def _too_long(self) -> FramingError:
        return FramingError(
            f"{self._operator}: an event is longer than max_length={self._most} characters; raise max_length"
        )


class ParseServerSentEvents(Stage[bytes, ServerSentEvent]):
    """The stage of `Source.parse_server_sent_events`."""

    handling = BLURS_MEMORY

    def __init__(self, max_length: int = LONGEST_EVENT) -> None:
        self.max_length = positive("parse_server_sent_events", "max_length", max_length)


@logic_of(ParseServerSentEvents)
class _ParseLogic(CuttingLogic):
    def __init__(self, stage: ParseServerSentEvents) -> None:
        super().__init__(stage)
        self._parser = EventParser("parse_server_sent_events", stage.max_length)

    def pending(self) -> bool:
        return self._parser.unfinished

    def cut(self, chunk: list[bytes], results: list[Any]) -> None:
        self._parser.feed(b"".join(chunk), results)


class FormatServerSentEvents(Stage[Any, bytes]):
    """The stage of `Source.format_server_sent_events`."""

    handling = EXACT

    def __init__(self) -> None:
        self.fn = event_bytes


@logic_of(FormatServerSentEvents)
class _FormatLogic(ElementwiseLogic):
    def loop(self, feed: Iterator[Any], out: list[Any], stop: list[int]) -> None:
        for element in feed:
            out.append(event_bytes(element))
            if stop:
                return


def event_bytes(element: Any) -> bytes:
    """Return the bytes of one event."""
    event = ServerSentEvent(element) if isinstance(element, str) else element
    if not isinstance(event, ServerSentEvent):
        raise TypeError(
            f"format_server_sent_events expects ServerSentEvent or a string, got {type(element).__name__} {shortened(element, 60)}"
        )
    lines = []
    for name, value in (("event", event.event if event.event != "message" else ""), ("id", event.id)):
        if "\n" in value or "\r" in value or "\0" in value:
            raise ValueError(
                f"format_server_sent_events: the {name} of an event holds a line end or NUL: {shortened(value, 60)}"
            )
        if value:
            lines.append(f"{name}: {value}")
    if event.retry_ms is not None:
        lines.append(f"retry: {event.retry_ms}")
    data = event.data.replace("\r\n", "\n").replace("\r", "\n")
    lines += [f"data: {line}" for line in data.split("\n")]
    return ("\n".join(lines) + "\n\n").encode()
