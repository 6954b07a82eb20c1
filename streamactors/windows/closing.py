"""Sessions and sliding windows in the order in which they close: final results without a buffer of their own.

Owner: the aggregation. The index holds the store's own objects, one entry for each key and window that came to be.
What was merged or deleted meanwhile keeps its place until it is due and is then skipped: just the entries that a
suppress buffer would hold, so that they can be counted as such."""

from __future__ import annotations

from typing import Any, Generic, Protocol, TypeVar

from streamactors.windows.buffered import Buffered, entry_bytes
from streamactors.windows.codec import Serdes
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.record import RecordContext
from streamactors.windows.time_index import NEVER, TimeIndex


class Closable(Protocol):
    """What the index holds of a window. `gone`: merged into another or deleted. `prior` and `old`: the aggregate before
    its first and its last update."""

    value: Any
    prior: Any
    old: Any
    context: RecordContext | None
    gone: bool

    def __lt__(self, other: object) -> bool:
        """Two of the same time and bytes (one deleted, and come to be again) need no order among themselves."""


T = TypeVar("T", bound=Closable)


class Closing(Generic[T]):
    """`report` tells whom it serves: emit_on_window_close (EmitMetrics) or a suppression (SuppressMetrics).

    `width` is that of the index. A window is due once its inclusive end lies before the close limit."""

    def __init__(self, report: EmitMetrics | SuppressMetrics, width: int) -> None:
        self.report = report
        self.suppresses = isinstance(report, SuppressMetrics)
        self._index: TimeIndex[T] = TimeIndex(width)
        self._count = 0

    def put(self, end: int, tie: bytes, window: T) -> None:
        """A window that came to be; `tie` orders windows of the same end."""
        self._count += 1
        self._index.push(end, tie, window)

    def due(self, limit: int) -> list[T]:
        """Remove the windows with end < `limit`; return those that are still there, in order."""
        entries = self._index.pop_before(limit)
        self._count -= len(entries)
        return [window for _, _, window in entries if not window.gone]

    def first_end(self) -> int | None:
        """The smallest end there is."""
        end = self._index.first_time()
        return None if end == NEVER else end

    def buffered(self, serdes: Serdes) -> Buffered:
        """What a suppress buffer would hold now. O(entries)."""
        size = 0
        for _, tie, window in self._index.items():
            new = None if window.gone else window.value
            size += entry_bytes(serdes, len(tie), window.prior, window.old, new, window.context)
        return Buffered(self._count, size)
