"""Final results of windows without rows: which keys get one when a tumbling window closes.

Owner: TimeFinals. Nothing of it is stored: the closed windows that the store keeps say which keys had rows, so a restart finds them again. A key gets
results of empty windows that begin within `keep_ms` of its last window with a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from streamactors.gauges import Gauge
from streamactors.windows.definitions.windows import TimeWindows
from streamactors.windows.operators.operator import Ident
from streamactors.windows.state.stores import Cell


class EmptyWindows:
    """The keys of the newest closed windows. `init` makes the value of an empty window."""

    def __init__(self, node: str, windows: TimeWindows, keep_ms: int, init: Callable[[], Any]) -> None:
        self._windows = windows
        self._keep = keep_ms
        self.init = init
        self._last: dict[Ident, tuple[int, Any]] = {}  # start of the last window with a row, and the key
        self._newest = -1  # the largest of these starts
        self._closed = -1  # the start of the window that closed last
        self._gauge = Gauge(
            f"{node}: keys that get results of empty windows",
            unit="keys",
            bounded_by="the keys within fill_empty",
        )

    def restore(self, windows: Iterable[tuple[int, Mapping[Ident, Cell]]], closed_through: int) -> None:
        """Take the windows of the store that were emitted before a restart: those that begin up to `closed_through`."""
        for start, cells in sorted(windows, key=lambda each: each[0]):
            if start <= closed_through:
                self.closed(start, cells)
        if closed_through >= 0 and self._last:
            self._closed = max(self._closed, self._windows.starts(closed_through)[-1])

    def next_start(self) -> int | None:
        """Return the start of the next window that has results although no row came; None if no key is left."""
        if not self._last:
            return None
        start = self._windows.end(self._closed)
        return start if start <= self._newest + self._keep else None

    def missing(self, start: int, cells: Mapping[Ident, Cell]) -> list[tuple[Ident, Any]]:
        """Return the keys that have no row in the window, with their idents. Called in the order of the windows."""
        oldest = start - self._keep
        return [(ident, key) for ident, (last, key) in self._last.items() if last >= oldest and ident not in cells]

    def closed(self, start: int, cells: Mapping[Ident, Cell]) -> None:
        """A window has closed; `cells` are its keys with rows."""
        self._closed = max(start, self._closed)
        for ident, cell in cells.items():
            self._last[ident] = (start, cell.key)
        if cells:
            self._newest = max(start, self._newest)
        oldest = start - self._keep
        if len(self._last) > 2 * len(cells) or not cells:
            self._last = {ident: each for ident, each in self._last.items() if each[0] >= oldest}
        self._gauge.reached(len(self._last))
