"""What operators do at which moment of virtual time."""

from __future__ import annotations

import pytest

from streamactors.engine.marks.marks import BLURS_MEMORY, EXACT, EXACT_MEMORY
from streamactors.errors import BuildError, StreamTimeout
from streamactors.stages.fold.grouped_within import GroupedWithin
from streamactors.stages.limit.within import DropWithin, TakeWithin
from streamactors.stages.rate.buffer import Buffer
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.rate.token_bucket import TokenBucket
from streamactors.stages.timing.delay import Delay, InitialDelay
from streamactors.stages.timing.timeouts import (
    BackpressureTimeout,
    CompletionTimeout,
    IdleTimeout,
    InitialTimeout,
    KeepAlive,
)
from tests.stages.harness import Bench


def test_grouped_within_emits_what_came_in_each_span_and_no_empty_list(timeless):
    with Bench(timeless, GroupedWithin(10, "100ms")) as bench:
        bench.request(10)
        bench.send(1)
        bench.advance("50ms")
        bench.send(2)
        bench.advance("49ms")
        assert bench.received == []
        bench.advance("1ms")
        assert bench.received == [[1, 2]]
        bench.advance("300ms")
        assert bench.received == [[1, 2]], "an empty span gives no list"
        bench.advance("50ms")
        bench.send(3)
        bench.advance("50ms")
        assert bench.received == [[1, 2], [3]], "spans are counted from the start"


def test_grouped_within_begins_a_new_span_with_each_full_list(timeless):
    with Bench(timeless, GroupedWithin(2, "100ms")) as bench:
        bench.request(10)
        bench.advance("60ms")
        bench.send(1, 2, 3)
        assert bench.received == [[1, 2]]
        bench.advance("99ms")
        assert bench.received == [[1, 2]]
        bench.advance("1ms")
        assert bench.received == [[1, 2], [3]]
        bench.send(4)
        bench.complete()
        assert bench.received[-1] == [4]
        assert bench.end == "completed"


def test_grouped_within_waits_for_demand_with_a_full_or_overdue_list(timeless):
    with Bench(timeless, GroupedWithin(3, "100ms")) as bench:
        bench.send(1, 2, 3, 4)
        assert bench.source.pushed == 3, "one list ahead"
        bench.request(1)
        assert bench.received == [[1, 2, 3]]
        bench.advance("100ms")
        bench.send(5)
        assert bench.received == [[1, 2, 3]]
        bench.request(1)
        assert bench.received == [[1, 2, 3], [4, 5]], "overdue: at the first demand, with what has come meanwhile"


def test_delay_emits_each_element_that_long_after_it_came(timeless):
    with Bench(timeless, Delay("100ms")) as bench:
        bench.request(10)
        bench.send(1, 2)
        bench.advance("30ms")
        bench.send(3)
        bench.advance("69ms")
        assert bench.received == []
        bench.advance("1ms")
        assert bench.received == [1, 2]
        bench.complete()
        assert bench.end is None
        bench.advance("30ms")
        assert bench.received == [1, 2, 3]
        assert bench.end == "completed"


def test_delay_back_pressures_at_its_buffer_or_drops_as_told(timeless):
    for strategy, kept in (
        ("backpressure", [1, 2, 3]),
        ("drop_head", [3, 4, 5]),
        ("drop_tail", [1, 2, 5]),
        ("drop_new", [1, 2, 3]),
        ("drop_buffer", [4, 5]),
    ):
        with Bench(timeless, Delay("100ms", buffer=3, strategy=strategy)) as bench:
            bench.request(10)
            for x in range(1, 6):
                bench.send(x)
            bench.advance("100ms")
            assert bench.received == kept
            assert bench.source.pushed == (3 if strategy == "backpressure" else 5) + (
                2 if strategy == "backpressure" else 0
            )


def test_a_delayed_element_waits_for_demand_too(timeless):
    with Bench(timeless, Delay("10ms")) as bench:
        bench.send(1)
        bench.advance("100ms")
        bench.request(1)
        assert bench.received == [1]


def test_initial_delay_asks_for_nothing_until_it_is_over(timeless):
    with Bench(timeless, InitialDelay("100ms")) as bench:
        bench.request(3)
        bench.send(1)
        bench.advance("99ms")
        assert (bench.asked, bench.received) == (0, [])
        bench.advance("1ms")
        assert bench.received == [1]


def test_take_within_completes_when_the_time_is_over(timeless):
    with Bench(timeless, TakeWithin("100ms")) as bench:
        bench.request(10)
        bench.send(1)
        bench.advance("99ms")
        bench.send(2)
        assert bench.end is None
        bench.advance("1ms")
        assert (bench.received, bench.end) == ([1, 2], "completed")
        assert bench.cancelled is not None


def test_drop_within_passes_what_comes_once_the_time_is_over(timeless):
    with Bench(timeless, DropWithin("100ms")) as bench:
        bench.request(10)
        bench.send(1, 2)
        bench.advance("99ms")
        bench.send(3)
        bench.advance("1ms")
        bench.send(4, 5)
        assert bench.received == [4, 5]


def test_idle_timeout_counts_from_the_last_element(timeless):
    with Bench(timeless, IdleTimeout("100ms")) as bench:
        bench.request(10)
        bench.advance("90ms")
        bench.send(1)
        bench.advance("90ms")
        bench.send(2)
        bench.advance("99ms")
        assert bench.end is None
        bench.advance("1ms")
        assert isinstance(bench.end, StreamTimeout)
        assert str(bench.end) == "idle_timeout: no element within 100 ms"
        assert bench.cancelled is bench.end


def test_initial_timeout_looks_at_the_first_element_only(timeless):
    with Bench(timeless, InitialTimeout("100ms")) as bench:
        bench.request(10)
        bench.send(1)
        bench.advance("1h")
        assert bench.end is None
    with Bench(timeless, InitialTimeout("100ms")) as bench:
        bench.request(1)
        bench.advance("100ms")
        assert isinstance(bench.end, StreamTimeout)


def test_completion_timeout_does_not_care_for_elements(timeless):
    with Bench(timeless, CompletionTimeout("100ms")) as bench:
        bench.request(10)
        bench.advance("99ms")
        bench.send(1)
        bench.advance("1ms")
        assert bench.received == [1]
        assert isinstance(bench.end, StreamTimeout)


def test_backpressure_timeout_counts_from_the_element_that_used_up_the_demand(timeless):
    with Bench(timeless, BackpressureTimeout("100ms")) as bench:
        bench.advance("99ms")
        bench.request(1)
        bench.advance("1h")
        assert bench.end is None, "demand is open"
        bench.send(1)
        bench.advance("99ms")
        assert bench.end is None
        bench.advance("1ms")
        assert isinstance(bench.end, StreamTimeout)
    with Bench(timeless, BackpressureTimeout("100ms")) as bench:
        bench.advance("100ms")
        assert isinstance(bench.end, StreamTimeout), "nobody ever asked"


def test_keep_alive_fills_silence_and_counts_anew_from_each_element(timeless):
    made = iter(range(-1, -100, -1))
    with Bench(timeless, KeepAlive("100ms", lambda: next(made))) as bench:
        bench.request(10)
        bench.advance("99ms")
        bench.send(1)
        bench.advance("99ms")
        assert bench.received == [1]
        bench.advance("1ms")
        assert bench.received == [1, -1]
        bench.advance("200ms")
        assert bench.received == [1, -1, -2, -3]


def test_keep_alive_without_demand_fills_in_once_when_it_comes_unless_an_element_waits(timeless):
    with Bench(timeless, KeepAlive("100ms", lambda: "filled")) as bench:
        bench.advance("1s")
        bench.request(1)
        assert bench.received == ["filled"]
        bench.advance("1s")
        bench.send(1)
        bench.request(2)
        assert bench.received == ["filled", 1], "an element that waits goes first"
        bench.advance("100ms")
        assert bench.received == ["filled", 1, "filled"]


def test_a_failure_overtakes_what_throttle_and_delay_hold(timeless):
    for stage in (Throttle(1, "1s"), Delay("1s")):
        with Bench(timeless, stage) as bench:
            bench.request(10)
            bench.send(1, 2, 3)
            bench.fail(error := ValueError("upstream"))
            assert bench.end is error


def test_demand_does_not_run_ahead_of_a_throttle(timeless):
    with Bench(timeless, Throttle(1, "200ms")) as bench:
        bench.request(100)
        bench.send(*range(50))
        assert bench.source.peak <= 2
        bench.advance("2s")
        assert len(bench.received) == 11
        assert bench.source.peak <= 13


def test_a_token_bucket_never_gives_more_than_rate_and_capacity():
    bucket = TokenBucket(5, 10.0, now_ms=0.0)
    now = 0.0
    for given in range(1, 1_001):
        now += bucket.offer(1, now)
        assert given <= 5 + now / 10.0 + 1e-6
    assert now == pytest.approx((1_000 - 5) * 10.0)
    with pytest.raises(ValueError, match="at least 0, got -1"):
        bucket.offer(-1, now)


def test_strategies_that_drop_say_that_they_remember():
    assert Buffer(1).handling == EXACT
    assert Buffer(1, "fail").handling == EXACT
    assert Buffer(1, "drop_head").handling == EXACT_MEMORY
    assert Delay("1ms", strategy="drop_new").handling == EXACT_MEMORY


def test_operators_that_count_time_from_the_start_say_that_they_remember():
    assert InitialDelay("1ms").handling == EXACT
    assert TakeWithin("1ms").handling == DropWithin("1ms").handling == EXACT_MEMORY
    assert GroupedWithin(1, "1ms").handling == BLURS_MEMORY


def test_a_span_of_no_time_is_refused_and_an_initial_delay_of_none_is_not():
    for make in (TakeWithin, DropWithin, lambda span: GroupedWithin(1, span)):
        with pytest.raises(BuildError, match="span must be more than 0, got 0"):
            make(0)
    assert InitialDelay(0).label == "initial_delay"


def test_an_initial_delay_of_none_asks_at_once(timeless):
    with Bench(timeless, InitialDelay(0)) as bench:
        bench.request(1)
        bench.send(1)
        assert bench.received == [1]


def test_drop_within_goes_on_asking_while_it_drops_and_gives_each_later_element(timeless):
    with Bench(timeless, DropWithin("100ms")) as bench:
        bench.request(2)
        for x in range(5):
            bench.send(x)
        assert bench.source.pushed == 5
        bench.advance("100ms")
        bench.send(5, 6, 7)
        assert bench.received == [5, 6]


def test_take_within_completes_by_itself_when_upstream_is_silent_and_there_is_no_demand(timeless):
    with Bench(timeless, TakeWithin("50ms")) as bench:
        bench.advance("50ms")
        assert bench.end == "completed"


def test_grouped_within_holds_the_marks_of_a_list_until_it_is_out(timeless):
    with Bench(timeless, GroupedWithin(2, "100ms")) as bench:
        bench.request(1)
        bench.send(0)
        bench.mark()
        bench.advance("99ms")
        assert bench.marks == []
        bench.send(1)
        bench.mark()
        assert bench.received == [[0, 1]]
        assert bench.marks == [1, 2]
