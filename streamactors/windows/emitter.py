"""Closed sessions and sliding windows in the order in which emit_on_window_close gives them out.

Owner: the aggregation. There is no buffer of results: the index holds the store's own objects, one entry for each time
a window came to be; what was merged or deleted meanwhile is skipped."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Generic, Protocol, TypeVar

from streamactors.windows.metrics import EmitMetrics
from streamactors.windows.operator import Ident
from streamactors.windows.record import RecordContext
from streamactors.windows.time_index import TimeIndex


class Closable(Protocol):
    """What the index holds of a window."""

    key: Any
    value: Any
    context: RecordContext | None
    gone: bool


T = TypeVar("T", bound=Closable)


class Emitter(Generic[T]):
    """`width` is that of the index. A window is due once its inclusive end lies before the close limit."""

    def __init__(self, report: EmitMetrics, width: int) -> None:
        self._report = report
        self._index: TimeIndex[tuple[Ident, T]] = TimeIndex(width)

    def put(self, end: int, tie: bytes, ident: Ident, window: T) -> None:
        """A window that came to be; `tie` orders windows of the same end."""
        self._index.push(end, tie, _Entry((ident, window)))

    def due(self, limit: int) -> Iterator[tuple[Ident, T]]:
        """Remove and give the windows with end < `limit`, in order."""
        if self._index.first_time() >= limit:
            return
        began = time.perf_counter_ns()
        emitted = 0
        while self._index.first_time() < limit:
            ident, window = self._index.pop()[2]
            if not window.gone:
                emitted += 1
                yield ident, window
        if emitted:
            self._report.emitted += emitted
            self._report.latency.record((time.perf_counter_ns() - began) // 1_000_000)


class _Entry(tuple[Ident, Any]):
    """Entries of the same time and bytes (a window deleted and made again) need no order among themselves."""

    __slots__ = ()

    def __lt__(self, other: object) -> bool:
        return False
