"""What a pace learns from slices, and what it is made to forget."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streamactors.engine.island import pace as pace_file
from streamactors.engine.island.pace import Pace


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def slices(pace: Pace, clock: Clock, n: int, seconds: float, times: int = 1) -> None:
    for _ in range(times):
        pace.begin()
        clock.now += seconds
        pace.end(n)


def test_a_slow_slice_that_must_not_count_leaves_the_length_and_its_growth(monkeypatch: pytest.MonkeyPatch) -> None:
    # Only the length was kept. The count of elements since the last slow slice began at 0, so the next quick slice cut the length to its fourth part.
    clock = Clock()
    monkeypatch.setattr(pace_file, "perf_counter", clock)
    pace = Pace(cast("Any", SimpleNamespace(slice_no=0, in_slice=False, stop_slice=[])))
    slices(pace, clock, 64, 0.0001, times=8)
    learnt = pace.learnt
    slices(pace, clock, 1, 0.01)
    pace.learnt = learnt
    slices(pace, clock, 64, 0.0001)
    assert pace.limit >= learnt[0]
    assert pace.window >= learnt[1]
