"""Sessions and sliding windows in the order in which they close: final results without a buffer of their own.

Owner: the aggregation. The queue holds the store's own objects, one entry for each window of a key. An entry whose window
was merged or deleted stays until its time and is then skipped. So the queue holds exactly the entries that a suppress
buffer would hold, and `buffered` can count them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, Protocol, TypeVar

from streamactors.gauges import Gauge
from streamactors.windows.metrics import EmitMetrics, SuppressMetrics
from streamactors.windows.operators.aggregate import Accepted, AggregateSpec, WindowedOperator
from streamactors.windows.operators.buffered import Buffered, OpenWindows, entry_bytes
from streamactors.windows.operators.operator import NO_TIME, Ident, TaskEnvironment, Update
from streamactors.windows.record import Record, RecordContext
from streamactors.windows.state.calendar_queue import NEVER, CalendarQueue
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, StoreReader, TaskIdentity
from streamactors.windows.state.stores import ClosingQueue, Stores


class Closable(Protocol):
    """A window in the queue. `gone`: merged into another one or deleted. `prior` and `old`: the aggregate before its
    first and its last update."""

    value: Any
    prior: Any
    old: Any
    context: RecordContext | None
    gone: bool

    def __lt__(self, other: object) -> bool:
        """Two windows of the same end and bytes (one deleted, then created again) need no order."""


T = TypeVar("T", bound=Closable)


class Closing(Generic[T]):
    """`report`: an EmitMetrics for emit_on_window_close, a SuppressMetrics for a suppression. `width`: of the queue.

    A window is due once its inclusive end lies before the close limit."""

    def __init__(self, report: EmitMetrics | SuppressMetrics, width: int) -> None:
        self.report = report
        self.suppresses = isinstance(report, SuppressMetrics)
        self._queue: ClosingQueue[T] = CalendarQueue(width)
        self._count = 0
        self._gauge = Gauge(
            f"{report.node}: windows that wait for their end",
            unit="windows",
            bounded_by="length and grace of the windows",
        )

    def __len__(self) -> int:
        """Return the number of windows that wait for their end."""
        return self._count

    def lie_in(self, stores: Stores, store: str, find: Callable[[int, bytes], T | None]) -> None:
        """The windows are those of a store; `find` returns the window with an end and a tie, None if it is gone."""
        self._queue = stores.closing(store, self._queue, find)

    def put(self, end: int, tie: bytes, window: T) -> None:
        """Add a new window; `tie` orders windows of the same end."""
        self._count += 1
        self._queue.push(end, tie, window)

    def fill(
        self, windows: Iterable[T], end_of: Callable[[T], int], tie_of: Callable[[T], bytes], ends_from: int
    ) -> None:
        """Add those windows of a restored store that end at `ends_from` or later."""
        self._count += self._queue.fill(windows, end_of, tie_of, ends_from)

    def due(self, limit: int) -> list[T]:
        """Remove the windows with end < `limit`; return those that are still in the store, in order."""
        entries = self._queue.pop_before(limit)
        self._count -= len(entries)
        return [window for _, _, window in entries if not window.gone]

    def reached(self) -> None:
        """The rows of a chunk have been processed."""
        self._gauge.reached(self._count)

    def first_end(self) -> int:
        """Return the smallest end, NEVER if there is no window."""
        return self._queue.first_time()

    def buffered(self, serdes: Serdes) -> Buffered:
        """Return what a suppress buffer would hold now. O(entries)."""
        size = 0
        for _, tie, window in self._queue.items():
            new = None if window.gone else window.value
            size += entry_bytes(serdes, len(tie), window.prior, window.old, new, window.context)
        return Buffered(self._count, size)


class InclusiveOperator(WindowedOperator, Generic[T]):
    """Windows with inclusive ends: updates, or with `closing` final results when they close.

    A window is closed once its end lies before stream time - `wait_ms`."""

    def __init__(
        self, spec: AggregateSpec[Any], env: TaskEnvironment, closing: Closing[T] | None, wait_ms: int
    ) -> None:
        super().__init__(spec, env)
        self._closing = closing
        self._suppresses = closing is not None and closing.suppresses
        self._wait = wait_ms
        self._next_sweep = NO_TIME
        self._closed_before = NO_TIME  # windows that end before it were final before a restart, perhaps with less grace

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        update, closes = self._update, self._closing is not None
        for ident, record, timestamp in rows:
            update(ident, record, timestamp, out)
            if closes and timestamp == self.stream_time:
                self._release(out, record.context)

    @abstractmethod
    def _update(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        """Apply a row to the windows of its key, or refuse it."""

    def _limit(self) -> int:
        """Windows that end before it are closed."""
        limit = self.stream_time - self._wait
        return limit if limit > self._closed_before else self._closed_before

    def _release(self, out: list[Any], trigger: RecordContext | None = None) -> None:
        """Where results are final: emit the windows that stream time has closed."""
        if self._closing is None:
            return
        due = self._closing.due(self.stream_time - self._wait)
        if due:
            began, emitted = time.perf_counter_ns(), len(out)
            self._emit(due, trigger, out)
            self._closing.report.record(len(out) - emitted, began)

    @abstractmethod
    def _emit(self, due: list[T], trigger: RecordContext | None, out: list[Update]) -> None:
        """Append the final updates of closed windows; `trigger` is the context of the row that closed them."""

    def _next_release(self) -> int | None:
        end = NEVER if self._closing is None else self._closing.first_end()
        return None if end == NEVER else end + self._wait + 1

    @property
    def holds(self) -> int:
        """Number of windows that wait for their end."""
        return 0 if self._closing is None else len(self._closing)

    def open_windows(self) -> OpenWindows | None:
        return None if self._closing is None else OpenWindows(len(self._closing), self._next_release())

    def buffered(self) -> Buffered:
        """What a suppress buffer would hold."""
        assert self._closing is not None
        return self._closing.buffered(self.env.serdes)

    def _after_rows(self) -> None:
        if self._closing is not None:
            self._closing.reached()
        if self.stream_time > self._next_sweep:
            self._sweep()
            self._next_sweep = self.stream_time + max(self._retention, 1)

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        self._sweep_store()
        return super().changes(identity)

    def restore(self, reader: StoreReader) -> None:
        super().restore(reader)
        if self._closing is not None:  # a window that ends before `_closed_before` was emitted before the restart
            self._closing.fill(self._windows(), self._end_of, self._tie, self._closed_before)

    def _state(self) -> dict[str, Any]:
        if self._closing is None:
            return super()._state()
        return super()._state() | {"closed_before": max(self._closed_before, self.lasting_time - self._wait)}

    def _restore_state(self, state: dict[str, Any]) -> None:
        super()._restore_state(state)
        if self._closing is not None:
            self._closed_before = state.get("closed_before", self.stream_time - self._wait)

    @abstractmethod
    def _windows(self) -> Iterator[T]:
        """All windows of the store, in no order."""

    @abstractmethod
    def _end_of(self, window: T) -> int:
        """The inclusive end of a window."""

    @abstractmethod
    def _tie(self, window: T) -> bytes:
        """The bytes that order final results of windows of the same end."""

    def _await_close(self, window: T) -> None:
        """Where results are final: put a window among those that will close."""
        closing = self._closing
        if closing is not None:
            closing.put(self._end_of(window), self._tie(window), window)

    @abstractmethod
    def _sweep_store(self) -> None:
        """A cut begins: remove forgotten windows from the disk."""

    @abstractmethod
    def _sweep(self) -> None:
        """Forget closed windows that no row can need. Runs once per retention, so a row pays a constant share."""

    def _flushed_until(self) -> int:
        end = self._last_end() if self._finals else None
        return NO_TIME if end is None else end + self._wait + 1

    def _last_end(self) -> int | None:
        """The largest end in the store."""
        return max(map(self._end_of, self._windows()), default=None)
