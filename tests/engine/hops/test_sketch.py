"""The sketch: its quantiles are within one percent of the true ones, its count, sum and maximum are exact, and two sketches merge into one of all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.engine.hops.rows import RECENT_MS, HopRow
from streamactors.engine.hops.sketch import LEAST_MS, Sketch

DURATIONS = st.lists(st.floats(0.0, 1e9), min_size=1, max_size=300)


def sketch_of(durations: list[float]) -> Sketch:
    sketch = Sketch()
    for each in durations:
        sketch.add(each)
    return sketch


@given(durations=DURATIONS, share=st.sampled_from([0.0, 0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_within_one_percent_of_the_true_one(durations, share):
    true = sorted(durations)[max(1, math.ceil(share * len(durations))) - 1]
    found = sketch_of(durations).quantile(share)
    assert found is not None
    assert found == pytest.approx(true, rel=0.010_01, abs=LEAST_MS)


@given(first=DURATIONS, second=DURATIONS)
def test_two_sketches_merge_into_one_of_all_durations(first, second):
    merged, whole = sketch_of(first), sketch_of(first + second)
    merged.merge(sketch_of(second))
    assert (merged.n, merged.max_ms) == (whole.n, whole.max_ms) == (len(first + second), max(first + second))
    assert merged.total_ms == pytest.approx(math.fsum(first + second))
    assert merged.quantile(0.5) == whole.quantile(0.5)


def test_an_empty_sketch_says_that_it_knows_nothing():
    assert Sketch().quantile(0.5) is None


def test_a_sketch_stays_small_however_far_its_durations_are_apart():
    sketch = sketch_of([10.0**exponent * step for exponent in range(-9, 15) for step in range(1, 100)])
    assert len(sketch._counters) <= 1_600


def test_the_recent_durations_are_those_of_the_last_two_minutes():
    row = HopRow("map", now_ms=0.0)
    row.add(0.0, 1_000.0, now_ms=1.0)
    row.add(0.0, 5.0, now_ms=RECENT_MS + 1)
    assert row.shown(RECENT_MS + 2).recent.n == 2
    assert row.shown(2 * RECENT_MS + 2).recent.n == 1
    shown = row.shown(5 * RECENT_MS)
    assert (shown.recent.n, shown.whole.n, shown.whole.max_ms) == (0, 2, 1_000.0)
