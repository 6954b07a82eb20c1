"""W3C trace context in record headers: the headers `traceparent` and `tracestate`. Source: https://www.w3.org/TR/trace-context/.

Headers come from strangers: what is not exactly a context is ignored, and logged once for each topic. Nothing here imports opentelemetry."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

TRACEPARENT: Final = "traceparent"
TRACESTATE: Final = "tracestate"
MOST_STATE: Final = 512
"""The longest `tracestate` that is carried on, in bytes. A longer one is dropped; the context itself is kept."""
MOST_TOPICS: Final = 1_000

_FORM: Final = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[ -~]{0,200})?")
_PRINTABLE: Final = re.compile(rb"[ -~]*")
_log = logging.getLogger("streamactors.tracing")


class RemoteContext(NamedTuple):
    """What a valid header says."""

    trace_id: int
    span_id: int
    sampled: bool
    state: str


class ContextReader:
    """Reads contexts from headers. Thread-safe."""

    def __init__(self) -> None:
        self._told: set[str] = set()  # topics with a header that was ignored

    def read(self, topic: str, headers: Iterable[tuple[str, Any]]) -> RemoteContext | None:
        """Return the context of a record; None if it has none, or a wrong one."""
        found = state = None
        for name, value in headers:
            if name == TRACEPARENT:
                if found is not None:
                    self._ignored(topic, "there is more than one")
                    return None
                found = b"" if value is None else value
            elif name == TRACESTATE and isinstance(value, bytes):
                state = value if state is None else state + b"," + value
        if found is None:
            return None
        context = parsed(found, state)
        if context is None:
            self._ignored(topic, f"it is {found[:60]!r}")
        return context

    def _ignored(self, topic: str, why: str) -> None:
        if topic not in self._told and len(self._told) < MOST_TOPICS:
            self._told.add(topic)
            _log.warning(
                "topic %s: a record has a header 'traceparent' that is no trace context (%s); such headers are ignored, and this is logged once",
                topic,
                why,
            )


def parsed(value: bytes, state: bytes | None = None) -> RemoteContext | None:
    """Return the context that the bytes of a header say, None if they are none. A later version than 00 may have more after a dash."""
    match = _FORM.fullmatch(value) if isinstance(value, bytes) and len(value) <= 256 else None
    if match is None:
        return None
    version, trace_id, span_id, flags, more = match.groups()
    if version == b"ff" or (version == b"00" and more is not None):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    kept = state is not None and len(state) <= MOST_STATE and _PRINTABLE.fullmatch(state) is not None
    return RemoteContext(
        int(trace_id, 16), int(span_id, 16), bool(int(flags, 16) & 1), (state or b"").decode("ascii") if kept else ""
    )


def written(trace_id: int, span_id: int, state: str) -> list[tuple[str, bytes]]:
    """Return the headers of a sampled context."""
    headers = [(TRACEPARENT, b"00-%032x-%016x-01" % (trace_id, span_id))]
    if state:
        headers.append((TRACESTATE, state.encode()))
    return headers


def replaced(headers: Iterable[tuple[str, Any]] | None, by: list[tuple[str, bytes]]) -> list[tuple[str, Any]]:
    """Return headers with the context `by` in place of any that they had."""
    return [header for header in headers or () if header[0] not in (TRACEPARENT, TRACESTATE)] + by
