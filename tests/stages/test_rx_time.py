"""RxPY's time operators emit the same results at the same times on the stage's clock as on RxPY's own historical clock."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import reactivex as rx
from hypothesis import given, settings
from hypothesis import strategies as st
from reactivex import operators as ops
from reactivex.internal.basic import default_now
from reactivex.scheduler import HistoricalScheduler
from reactivex.subject import Subject

from streamactors import Sink, Source
from streamactors.errors import StageFailed
from streamactors.stages.rx.pipeline import Rx
from tests.stages.harness import Bench

TICK_S = 0.1
"""Every operator waits for multiples of this, and no two elements have a distance of that, so nothing happens at the same moment."""

BEGAN = datetime(2030, 1, 1, tzinfo=UTC)

At = Callable[[float], datetime]
"""A moment, as so many seconds after the beginning of the pipeline."""

PIPELINES: dict[str, Callable[[At], tuple[Any, ...]]] = {
    "buffer_with_time": lambda at: (ops.buffer_with_time(2 * TICK_S),),
    "buffer_with_time and a shift": lambda at: (ops.buffer_with_time(3 * TICK_S, TICK_S),),
    "buffer_with_time_or_count": lambda at: (ops.buffer_with_time_or_count(2 * TICK_S, 2),),
    "debounce": lambda at: (ops.debounce(TICK_S),),
    "delay": lambda at: (ops.delay(2 * TICK_S),),
    "delay of nothing": lambda at: (ops.delay(0),),
    "delay until a date": lambda at: (ops.delay(at(2 * TICK_S)),),
    "delay_subscription": lambda at: (ops.delay_subscription(3 * TICK_S),),
    "delay_with_mapper": lambda at: (ops.delay_with_mapper(lambda x: rx.timer((x % 3) * TICK_S)),),
    "generate_with_relative_time": lambda at: (
        ops.flat_map(lambda x: rx.generate_with_relative_time(0, lambda i: i < 3, lambda i: i + 1, lambda i: TICK_S)),
    ),
    "interval": lambda at: (ops.flat_map(lambda x: rx.interval(TICK_S).pipe(ops.take(3))),),
    "sample": lambda at: (ops.sample(2 * TICK_S),),
    "skip_last_with_time": lambda at: (ops.skip_last_with_time(2 * TICK_S),),
    "skip_until_with_time": lambda at: (ops.skip_until_with_time(3 * TICK_S),),
    "skip_until_with_time of a date": lambda at: (ops.skip_until_with_time(at(3 * TICK_S)),),
    "skip_with_time": lambda at: (ops.skip_with_time(3 * TICK_S),),
    "take_last_with_time": lambda at: (ops.take_last_with_time(3 * TICK_S),),
    "take_until_with_time": lambda at: (ops.take_until_with_time(4 * TICK_S),),
    "take_until_with_time of a date": lambda at: (ops.take_until_with_time(at(4 * TICK_S)),),
    "take_with_time": lambda at: (ops.take_with_time(4 * TICK_S),),
    "throttle_first": lambda at: (ops.throttle_first(2 * TICK_S),),
    "time_interval": lambda at: (ops.time_interval(), ops.map(lambda each: (each.value, each.interval))),
    "timeout": lambda at: (ops.timeout(3 * TICK_S, rx.of(-1)),),
    "timeout at a date": lambda at: (ops.timeout(at(4 * TICK_S), rx.of(-1)),),
    "timeout_with_mapper": lambda at: (
        ops.timeout_with_mapper(rx.timer(3 * TICK_S), lambda x: rx.timer(2 * TICK_S), rx.of(-1)),
    ),
    "timer": lambda at: (ops.flat_map(lambda x: rx.timer(TICK_S)),),
    "timer at once with a period": lambda at: (ops.flat_map(lambda x: rx.timer(0, TICK_S).pipe(ops.take(3))),),
    "timer with a period": lambda at: (ops.flat_map(lambda x: rx.timer(TICK_S, 2 * TICK_S).pipe(ops.take(3))),),
    "timer with equal times": lambda at: (ops.flat_map(lambda x: rx.timer(TICK_S, TICK_S).pipe(ops.take(3))),),
    "timestamp": lambda at: (ops.timestamp(), ops.map(lambda each: (each.value, each.timestamp.tzinfo))),
    "window_with_time": lambda at: (ops.window_with_time(2 * TICK_S), ops.flat_map(ops.to_list())),
    "window_with_time_or_count": lambda at: (ops.window_with_time_or_count(2 * TICK_S, 2), ops.flat_map(ops.to_list())),
}


@st.composite
def timelines(draw: Any) -> tuple[list[int], int]:
    """Return the times of the elements and of the end, in ms."""
    ticks = sorted(draw(st.lists(st.integers(0, 9), max_size=6)))
    last = ticks[-1] if ticks else 0
    return [100 * tick + 7 * (i + 1) for i, tick in enumerate(ticks)], 100 * (last + draw(st.integers(0, 4))) + 60


def rounded(emitted: list[tuple[timedelta, Any]]) -> list[tuple[int, Any]]:
    return [(round(after / timedelta(milliseconds=1)), _whole_ms(value)) for after, value in emitted]


def _whole_ms(value: Any) -> Any:
    if isinstance(value, timedelta):
        return round(value / timedelta(milliseconds=1))
    return tuple(_whole_ms(part) for part in value) if isinstance(value, tuple) else value


def on_historical_clock(name: str, times: list[int], end: int) -> list[tuple[int, Any]]:
    scheduler = HistoricalScheduler(BEGAN)
    emitted: list[tuple[timedelta, Any]] = []
    feed: Subject[Any] = Subject()
    for x, ms in enumerate(times):
        scheduler.schedule_absolute(BEGAN + timedelta(milliseconds=ms), lambda *_, x=x: feed.on_next(x))
    scheduler.schedule_absolute(BEGAN + timedelta(milliseconds=end), lambda *_: feed.on_completed())
    operators = PIPELINES[name](lambda s: BEGAN + timedelta(seconds=s))
    feed.pipe(*operators).subscribe(lambda x: emitted.append((scheduler.now - BEGAN, x)), scheduler=scheduler)
    scheduler.advance_to(BEGAN + timedelta(seconds=10))
    return rounded(emitted)


def on_the_stage(system: Any, name: str, times: list[int], end: int) -> list[tuple[int, Any]]:
    began_ms = system.clock.now_ms()
    began = default_now()  # the stage's clock begins a moment later
    emitted: list[tuple[timedelta, Any]] = []

    def write_down(x: Any) -> None:
        emitted.append((timedelta(milliseconds=system.clock.now_ms() - began_ms), x))

    pipeline = PIPELINES[name](lambda s: began + timedelta(seconds=s))
    with Bench(system, Rx(*pipeline, ops.do_action(write_down))) as bench:
        bench.request(1_000)
        for x, ms in enumerate(times):
            bench.advance((began_ms + ms - system.clock.now_ms()) / 1_000)
            bench.send(x)
        bench.advance((began_ms + end - system.clock.now_ms()) / 1_000)
        bench.complete()
        bench.advance("10s")
        assert bench.end == "completed"
    return rounded(emitted)


@pytest.mark.parametrize("name", sorted(PIPELINES))
@settings(max_examples=20)
@given(timeline=timelines())
def test_results_and_their_times_are_those_of_a_historical_clock(timeless: Any, name: str, timeline: Any) -> None:
    times, end = timeline
    expected, observed = on_historical_clock(name, times, end), on_the_stage(timeless, name, times, end)
    assert [x for _, x in observed] == [x for _, x in expected]
    late_ms = 50 if "date" in name else 0  # a date is a real time; the stage's clock began a moment after the test's
    for (at, _), (due, _) in zip(observed, expected, strict=True):
        assert abs(at - due) <= late_ms


def test_a_date_without_a_time_zone_is_an_error_that_names_it() -> None:
    in_a_second = datetime.now() + timedelta(seconds=1)
    with pytest.raises(StageFailed, match=r"datetime\.datetime\(.*\) has no time zone; use datetime\.now\(UTC\)"):
        Source.range(0, 3).rx(ops.delay(in_a_second)).run_with(Sink.to_list()).result(timeout=20)


def test_actions_without_a_delay_run_on_the_thread_of_the_stage_and_later_ones_never_sleep_there(timeless: Any) -> None:
    """Each of 100 timers of an hour is under way when the call that began them returns."""
    with Bench(timeless, Rx(ops.flat_map(lambda x: rx.timer(3_600.0, 3_600.0).pipe(ops.take(2))))) as bench:
        bench.request(1_000)
        bench.send(*range(100))
        assert bench.received == []
        bench.complete()
        bench.advance("2h")
        assert sorted(bench.received) == [0] * 100 + [1] * 100
        assert bench.end == "completed"
