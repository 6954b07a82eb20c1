"""Spans of a test: what was started and ended in this process, and what must hold of all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider


class Recorder(SpanProcessor):
    """Keeps each span that was started, and each that has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.started: list[Any] = []
        self.ended: list[ReadableSpan] = []
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(self)

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        with self._lock:
            self.started.append(span)

    def on_end(self, span: ReadableSpan) -> None:
        with self._lock:
            self.ended.append(span)

    def named(self, name: str) -> list[ReadableSpan]:
        """Return the spans of a name that have ended, by the time of their start."""
        found = [span for span in self.ended if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)

    def when(self, name: str, count: int, within_s: float = 30.0) -> list[ReadableSpan]:
        """Return the spans of a name as soon as `count` have ended, or those that have after `within_s` seconds.

        For streams without a control: their result may come a moment before their source knows that all is done."""
        deadline = time.monotonic() + within_s
        while len(found := self.named(name)) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        return found

    def one(self, name: str) -> ReadableSpan:
        """Return the only span of a name."""
        (span,) = self.named(name)
        return span

    def check(self) -> None:
        """Every span has ended, and every parent and link is a span that was exported, in the parent's trace."""
        assert {id_of(span) for span in self.started} == {id_of(span) for span in self.ended}
        assert len(self.started) == len(self.ended)
        by_id = {id_of(span): span for span in self.ended}
        for span in self.ended:
            if span.parent is not None:
                assert span.parent.span_id in by_id, f"{span.name} is an orphan"
                assert trace_of(by_id[span.parent.span_id]) == trace_of(span)
            assert all(link.context.span_id in by_id for link in span.links), f"{span.name} links what was not exported"
            assert span.start_time is not None
            assert span.end_time is not None
            assert span.start_time <= span.end_time


def id_of(span: Any) -> int:
    """Return the id of a span."""
    found: int = span.get_span_context().span_id
    return found


def trace_of(span: Any) -> int:
    """Return the id of a span's trace."""
    found: int = span.get_span_context().trace_id
    return found


def linked(span: ReadableSpan) -> set[int]:
    """Return the ids of the spans that a span links."""
    return {link.context.span_id for link in span.links}


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent."""
    return None if span.parent is None else span.parent.span_id


def recorded() -> Iterator[Recorder]:
    """For a fixture: traces every record; at the end checks what must hold of all spans."""
    from streamactors import tracing

    recorder = Recorder()
    with tracing.install(provider=recorder.provider):
        yield recorder
    recorder.check()
