"""The results of a windowed stage, its late rows, and the marks between them, until downstream asks for them.

Owner: the windowed stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.marks.marks import Mark
from streamactors.stages.bases.marked_queue import MarkedQueue


class Results:
    """The results, and for a second outlet the late rows."""

    def __init__(self, outlets: Sequence[Connection]) -> None:
        self._outlets = outlets
        self._results = MarkedQueue()
        self._late = MarkedQueue()
        self._has_late = len(outlets) > 1

    @property
    def waiting(self) -> bool:
        """True while results, or marks after them, wait for demand."""
        return bool(self._results or self._late)

    @property
    def size(self) -> int:
        """Number of results and late rows that wait."""
        return self._results.size + self._late.size

    def put(self, results: list[Any], late: list[Any]) -> bool:
        """Append results, and late rows. Return whether there are any."""
        self._results.put(results)
        if late:
            self._late.put(late)
        return bool(results or late)

    def put_mark(self, mark: Mark) -> None:
        """Append a mark at every outlet."""
        self._results.put_mark(mark)
        if self._has_late:
            self._late.put_mark(mark)

    def emit(self) -> None:
        """Push what waits, as far as each outlet asks."""
        if self._results:
            out = self._outlets[0]
            self._results.push_out(out.asked, out.push, out.mark)
        if self._late:
            out = self._outlets[1]
            self._late.push_out(out.asked, out.push, out.mark)
