"""Streams that a test leaves running. They would log, fail and be stopped in the midst of later tests, which then differ with the order of tests."""

from __future__ import annotations

import time
from weakref import WeakSet

from streamactors.engine.island.run import Run, all_runs
from streamactors.engine.stalls.diagnosis import diagnose

WITHIN_S = 10.0
"""How long a stream may take to end after its test: a probe that was cancelled last is still on its way through the islands."""


class LeftoverWatch:
    """Names the streams that began during a test and still run after its fixtures were torn down."""

    def __init__(self, within_s: float = WITHIN_S) -> None:
        self._within_s = within_s
        self._known: WeakSet[Run] = WeakSet()

    def take(self) -> list[str]:
        """Return a sentence for each new leftover. Waits until streams that are about to end have ended."""
        until_s = time.monotonic() + self._within_s
        while (left := self._new()) and time.monotonic() < until_s:
            time.sleep(0.002)
        self._known.update(left)
        return [f"leaves a stream running: {described(run)}" for run in left]

    def _new(self) -> list[Run]:
        return [run for run in all_runs() if run not in self._known]


def described(run: Run) -> str:
    """Return the system of a run, and what the run waits for."""
    try:
        return f"in {run.system}: {diagnose(run)}"
    except AttributeError:  # it ends just now
        return f"in {run.system}"
