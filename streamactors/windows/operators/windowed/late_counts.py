"""Counts of late rows that a stage logs: for each step the rows it has dropped, their share of the input, and the grace that would have kept them.

Owner: the windowed stage, one thread at a time; pure. The tasks of all partitions count together. The first line of a step comes FIRST_MS after its
first late row, so that it has the size of a burst; later lines come every EVERY_MS while the number grows, and the last one when the stage ends.
Counts begin with the stage: a restart begins them again."""

from __future__ import annotations

import time
from typing import Final

from streamactors.windows.record import Record

FIRST_MS: Final = 1_000.0
EVERY_MS: Final = 10_000.0


class _Step:
    """The late rows of one step. `needed_ms`: the grace with which none of them would have been late; None: the end of the input closed the windows."""

    __slots__ = ("first", "grace_ms", "last", "logged", "needed_ms", "rows", "window")

    def __init__(self) -> None:
        self.rows = 0
        self.logged = 0
        self.grace_ms = 0
        self.needed_ms: int | None = 0
        self.last: Record | None = None
        self.first = self.window = (0, 0)


class LateCounts:
    """The late rows of the tasks of one sub-topology. `rows`: those that the tasks have taken."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms`: the wall clock."""
        self.rows = 0
        self._began_ms = began_ms
        self._steps: dict[str, _Step] = {}

    def refused(self, node: str, record: Record, window: tuple[int, int], grace_ms: int, needed_ms: int | None) -> None:
        """A closed window has refused a row. A row that several windows of one step refuse counts once."""
        step = self._steps.get(node)
        if step is None:
            step = self._steps[node] = _Step()
        if step.last is not record or window == step.first:  # a source may repeat one object
            step.rows += 1
            step.last, step.first = record, window
        step.window, step.grace_ms = window, grace_ms
        if needed_ms is None or step.needed_ms is None:
            step.needed_ms = None
        elif needed_ms > step.needed_ms:
            step.needed_ms = needed_ms

    @property
    def grew(self) -> bool:
        """True if a row was refused since the last `lines`."""
        return any(step.rows != step.logged for step in self._steps.values())

    def lines(self) -> list[str]:
        """Return a line for each step that has dropped rows since the last call."""
        found = [self._line(node, step) for node, step in self._steps.items() if step.rows != step.logged]
        for step in self._steps.values():
            step.logged = step.rows
        return found

    def _line(self, node: str, step: _Step) -> str:
        since = time.strftime("%H:%M:%S", time.localtime(self._began_ms / 1_000))
        whole = max(self.rows, step.rows)
        more = (
            "they came after the end of the input"
            if step.needed_ms is None
            else f"with a grace of {seconds(step.needed_ms)} none would have been late"
        )
        assert step.last is not None
        start, end = step.window
        return (
            f"{node}: {step.rows:,} {'row' if step.rows == 1 else 'rows'} dropped as late, {step.rows / whole:.1%} of the {whole:,} read since {since}; "
            f"grace {seconds(step.grace_ms)}: {more}; the last: key {step.last.key!r} at {step.last.timestamp} ms for window {start}..{end}"
        )


class LateReport:
    """The late rows of one stage, by its sub-topologies."""

    def __init__(self, began_ms: int) -> None:
        """`began_ms`: the wall clock."""
        self._began_ms = began_ms
        self._parts: dict[int, LateCounts] = {}

    def part(self, number: int) -> LateCounts:
        """Return the counts of a sub-topology."""
        return self._parts.setdefault(number, LateCounts(self._began_ms))

    @property
    def grew(self) -> bool:
        """True if a row was refused since the last `lines`."""
        return any(part.grew for part in self._parts.values())

    def lines(self) -> list[str]:
        """Return a line for each step that has dropped rows since the last call."""
        return [line for part in self._parts.values() for line in part.lines()]


def seconds(ms: int) -> str:
    """Return milliseconds as seconds, for people."""
    return f"{ms / 1_000:,.3f}".rstrip("0").rstrip(".") + " s"
