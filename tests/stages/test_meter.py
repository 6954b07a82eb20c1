"""The rate of a meter: elements per second over its window, in twenty parts."""

from __future__ import annotations

import pytest

from streamactors.stages.watching.meter import SLOTS, RateMeter


class Clock:
    def __init__(self) -> None:
        self.ms = 100.0

    def __call__(self) -> float:
        return self.ms


def started(window_ms: float) -> tuple[RateMeter, Clock]:
    meter, clock = RateMeter(window_ms), Clock()
    meter._start(clock)
    return meter, clock


def test_a_meter_that_has_not_begun_counts_nothing() -> None:
    meter = RateMeter(1_000)
    assert (meter.count, meter.rate) == (0, 0.0)
    assert SLOTS == 20


def test_the_rate_is_that_of_the_time_since_the_start_until_the_window_is_over() -> None:
    meter, clock = started(1_000)
    meter._add(5)
    assert meter.rate == 100.0, "the shortest time is a part of the window: 50 ms"
    clock.ms = 350.0
    assert meter.rate == pytest.approx(20.0)
    meter._add(5)
    clock.ms = 600.0
    assert meter.rate == pytest.approx(20.0)
    clock.ms = 1_100.0
    assert (meter.count, meter.rate) == (10, pytest.approx(10.0))


def test_what_is_older_than_the_window_does_not_count_any_more() -> None:
    meter, clock = started(1_000)
    for ms in range(100, 3_100, 100):
        clock.ms = float(ms)
        meter._add(2)
    assert meter.count == 60
    assert meter.rate == pytest.approx(20.0, abs=2.0)
    assert len(meter._slots) <= SLOTS + 2, "parts that are older than the window are forgotten"
    clock.ms = 3_900.0
    assert meter.rate == pytest.approx(4.0, abs=2.0)
    clock.ms = 4_200.0
    assert meter.rate == 0.0


def test_elements_of_one_part_are_counted_together() -> None:
    meter, clock = started(1_000)
    meter._add(1)
    clock.ms = 149.0
    meter._add(2)
    clock.ms = 150.0
    meter._add(4)
    assert list(meter._slots) == [(100.0, 3), (150.0, 4)]
