"""The rate that throttle keeps: bursts, costs, tokens, demand, in virtual time."""

from __future__ import annotations

import math

import pytest

from streamactors.engine.attributes import Attributes
from streamactors.engine.supervision import resuming
from streamactors.errors import RateExceeded
from streamactors.stages.rate.throttle import Throttle
from tests.stages.harness import Bench


def test_throttle_lets_a_burst_through_and_then_keeps_the_rate(timeless):
    with Bench(timeless, Throttle(10, "1s", burst=3)) as bench:
        bench.request(100)
        bench.send(*range(10))
        assert len(bench.received) == 3
        bench.advance("250ms")
        assert len(bench.received) == 5
        bench.advance("750ms")
        assert len(bench.received) == 10
        bench.advance("1h")
        bench.send(*range(10))
        assert len(bench.received) == 13, "no more than the burst is saved up"


def test_throttle_without_burst_lets_not_even_the_first_through_at_once(timeless):
    with Bench(timeless, Throttle(1, "100ms", burst=0)) as bench:
        bench.request(5)
        bench.send(1, 2)
        bench.advance("99ms")
        assert bench.received == []
        bench.advance("1ms")
        assert bench.received == [1]
        bench.advance("100ms")
        assert bench.received == [1, 2]


def test_throttle_by_cost_waits_for_the_whole_cost_of_an_element(timeless):
    calls = []

    def cost(x: int) -> int:
        calls.append(x)
        return x

    with Bench(timeless, Throttle(1, "100ms", burst=2, cost=cost)) as bench:
        bench.request(10)
        bench.send(1, 5, 1)
        assert bench.received == [1]
        bench.advance("399ms")
        assert bench.received == [1]
        bench.advance("1ms")
        assert bench.received == [1, 5], "one token was left, four had to come"
        bench.advance("100ms")
        assert bench.received == [1, 5, 1]
        assert sorted(calls) == [1, 1, 5], "each element is asked for its cost once"


def test_throttle_spends_the_tokens_of_costs_that_fit_and_saves_the_rest(timeless):
    with Bench(timeless, Throttle(10, "100ms", burst=6, cost=lambda x: x)) as bench:
        bench.request(10)
        bench.send(2, 3, 2)
        assert bench.received == [2, 3], "one of six tokens is left"
        bench.advance("9ms")
        assert bench.received == [2, 3]
        bench.advance("1ms")
        assert bench.received == [2, 3, 2], "one token was missing: 10 ms"
        bench.advance("20ms")
        bench.send(3)
        assert bench.received == [2, 3, 2], "two tokens have come"
        bench.advance("10ms")
        assert bench.received == [2, 3, 2, 3]


def test_an_element_without_cost_takes_no_token(timeless):
    with Bench(timeless, Throttle(1, "100ms", burst=1, cost=lambda x: x)) as bench:
        bench.request(10)
        bench.send(0, 0, 1, 0, 1)
        assert bench.received == [0, 0, 1, 0]
        bench.advance("100ms")
        assert bench.received == [0, 0, 1, 0, 1]


def test_an_element_dearer_than_the_burst_waits_for_its_whole_cost_once(timeless):
    calls = []
    with Bench(timeless, Throttle(1, "10ms", burst=3, cost=lambda x: calls.append(x) or x)) as bench:
        bench.request(10)
        bench.send(10)
        bench.advance("69ms")
        assert bench.received == []
        bench.advance("1ms")
        assert bench.received == [10]
        bench.send(1)
        assert bench.received == [10], "no token is left of the ten"
        bench.advance("10ms")
        assert bench.received == [10, 1]
        assert calls == [10, 1]


def test_throttle_by_cost_in_enforcing_mode_fails_at_the_element_that_is_too_dear(timeless):
    with Bench(timeless, Throttle(1, "100ms", burst=4, cost=lambda x: x, mode="enforcing")) as bench:
        bench.request(10)
        bench.send(1, 3)
        bench.advance("200ms")
        bench.send(2)
        assert bench.received == [1, 3, 2]
        bench.send(1)
        assert isinstance(bench.end, RateExceeded)
        assert "more than 1 per 100 ms (burst 4): the next element comes 100 ms too early" in str(bench.end)


@pytest.mark.parametrize("cost", [-1, math.inf, math.nan])
def test_a_cost_that_no_bucket_can_pay_is_told_with_its_element(timeless, cost):
    # the error of an endless cost was one of the timer's: "TimingWheel: a deadline must be a finite number"
    with Bench(timeless, Throttle(1, "100ms", cost=lambda x: cost)) as bench:
        bench.request(10)
        bench.send("dear")
        assert f"the cost of an element must be a finite number of at least 0, got {cost}" in str(bench.end)
        assert any("element 'dear'" in note for note in bench.end.__notes__)


@pytest.mark.expects_log("skipped: ")
def test_a_negative_cost_is_an_error_of_its_element(timeless):
    with Bench(timeless, Throttle(1, "100ms", cost=lambda x: x), Attributes(decider=resuming)) as bench:
        bench.request(10)
        bench.send(1, -1)
        bench.advance("100ms")
        bench.send(1)
        assert bench.received == [1, 1]


def test_the_automatic_burst_is_what_the_rate_gives_in_100_ms_and_at_least_one(timeless):
    for stage, burst in ((Throttle(100, "1s"), 10), (Throttle(1, "1s"), 1), (Throttle(30, "1s"), 3)):
        with Bench(timeless, stage) as bench:
            bench.request(100)
            bench.send(*range(50))
            assert len(bench.received) == burst
