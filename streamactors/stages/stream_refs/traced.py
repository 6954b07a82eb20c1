"""The sampled records that a stream ref brings: the other end tells the context of the record that the next elements stem from.

Owner: the receiving end of a ref in a traced run that nobody else marks. Its marks, before and after the elements of a sampled record, are for the traces alone."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from streamactors.engine.marks.marks import next_epoch
from streamactors.tracing.place import Place

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from streamactors.engine.island.connection import Connection
    from streamactors.tracing.run_trace import RunTrace

MOST: Final = 1_000
"""Contexts of elements that were received and not pushed yet; the window of the ref bounds the elements."""


class ReceivedContexts:
    """`begin` and `end` of a sampled part are numbers of elements since the start."""

    def __init__(self, trace: RunTrace, source: Any, name: str) -> None:
        self._trace = trace
        self._key = (source, 0)
        self._name = name
        self._epoch = next_epoch()
        self._told: tuple[bytes, str] | None = None
        self._parts: deque[tuple[int, int, tuple[bytes, str]]] = deque()
        self._open_until: int | None = None

    def told(self, parent: bytes, state: str) -> None:
        """The next elements stem from the record with this context."""
        self._told = (parent, state)

    def received(self, begin: int, end: int) -> None:
        """These elements have come."""
        if self._told is not None and len(self._parts) < MOST:
            self._parts.append((begin, end, self._told))
        self._told = None

    def before(self, at: int, out: Connection) -> None:
        """Elements are pushed from here on."""
        if not self._parts or self._parts[0][0] != at:
            return
        _, end, context = self._parts.popleft()
        spans = self._trace.spans
        remote: Span | None = spans.heard(*context)
        span = None if remote is None else spans.stage(self._name, remote.get_span_context())
        if span is not None:
            out.mark({self._key: (self._epoch, at)})
            self._open_until = end
            self._trace.begin(span, Place(""), self._key, (self._epoch, end), alone=True)

    def after(self, at: int, out: Connection) -> None:
        """Everything before was pushed."""
        if self._open_until == at:
            self._open_until = None
            out.mark({self._key: (self._epoch, at)})
