"""Counts of the transactions of a run, and where its cut is now, for a page that shows it.

Owner: the producer's thread writes, anybody reads."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from streamactors.engine.marks.cut_state import CutPart, CutPhase


class CutTally:
    """`last_ms`: how long the last cut took, from the first part that was asked to stop until its commit."""

    def __init__(self) -> None:
        self.id = ""
        self.phase = CutPhase.WRITING
        self.since_ms = int(time.time() * 1000)
        self.committed = self.aborted = self.written_again = 0
        self.last_ms: float | None = None
        self._began_s: float | None = None

    def at(self, phase: CutPhase) -> None:
        """The cut is in this phase."""
        if phase is not self.phase:
            if self.phase is CutPhase.WRITING:
                self._began_s = time.monotonic()
            self.phase = phase
            self.since_ms = int(time.time() * 1000)

    def ended(self) -> None:
        """The cut is committed."""
        self.committed += 1
        if self._began_s is not None:
            self.last_ms = round((time.monotonic() - self._began_s) * 1000, 3)
            self._began_s = time.monotonic()  # of the next one, if it was asked for meanwhile

    def report(self, parts: Iterable[CutPart]) -> dict[str, Any]:
        """Return the counts, and the phase of each part."""
        return {
            "id": self.id,
            "phase": self.phase.name.lower(),
            "since_ms": self.since_ms,
            "committed": self.committed,
            "aborted": self.aborted,
            "written_again": self.written_again,
            "last_ms": self.last_ms,
            "parts": tuple(f"{_name(part)}: {part.part_state.phase.name.lower()}" for part in parts),
        }


def _name(part: Any) -> str:
    """Return the name of a sink, or of the stage whose changelog a keeper writes."""
    return str(getattr(part, "name", None) or getattr(getattr(part, "stage", None), "name", type(part).__name__))
