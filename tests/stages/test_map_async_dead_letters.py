"""map_async(timeout=…, dead_letters=…): what no attempt could do leaves by a side sink, and the other calls run on."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest

from streamactors import (
    BuildError,
    CallTimeout,
    CircuitBreaker,
    CircuitOpen,
    FailedElement,
    Flow,
    RestartSettings,
    Sink,
    Source,
)
from streamactors.stages.asynchronous.map_async import MapAsync
from tests.stages.harness import Bench

THREE = RestartSettings("1ms", "1ms", random_factor=0, max_restarts=2)


def shown(failed: FailedElement) -> Any:
    return failed.element, str(failed.error), failed.attempts, failed.stage


OPERATORS: dict[str, Any] = {
    "map_async": lambda part, fn, **named: part.map_async(4, fn, **named),
    "map_async_unordered": lambda part, fn, **named: part.map_async_unordered(4, fn, **named),
    "map_async_partitioned": lambda part, fn, **named: part.map_async_partitioned(4, lambda x: x % 2, fn, **named),
    "map_async_partitioned_unordered": lambda part, fn, **named: part.map_async_partitioned_unordered(
        4, lambda x: x % 2, fn, **named
    ),
}


@pytest.mark.parametrize("kind", OPERATORS)
def test_an_element_whose_attempts_have_failed_is_a_dead_letter_and_the_others_are_emitted(timeless, kind):
    calls: Counter[int] = Counter()

    async def call(x: int) -> int:
        calls[x] += 1
        if x % 4 == 3:
            raise OSError(f"no answer for {x}")
        return x * 10

    dead: list[FailedElement] = []
    stream = OPERATORS[kind](Source.range(0, 10), call, retry=THREE, dead_letters=Sink.foreach(dead.append))
    done = stream.run_with(Sink.to_list(), timeless)
    timeless.clock.advance("1s")
    assert sorted(done.result(timeout=30)) == [x * 10 for x in range(10) if x % 4 != 3]
    assert sorted(map(shown, dead)) == [(x, f"no answer for {x}", 3, kind) for x in (3, 7)]
    assert calls[3] == calls[7] == 3
    assert any(f"in stage {kind}, element " in note for note in dead[0].error.__notes__)


def test_a_call_that_lasts_too_long_is_cancelled_and_is_a_failed_attempt(timeless):
    calls: Counter[int] = Counter()
    cancelled: list[int] = []

    async def call(x: int) -> int:
        calls[x] += 1
        if x == 1 or (x == 2 and calls[2] == 1):
            try:
                await asyncio.sleep(3_600)
            except asyncio.CancelledError:
                cancelled.append(x)
                raise
        return x

    dead: list[FailedElement] = []
    stream = Source.range(0, 4).map_async(4, call, timeout="2s", retry=THREE, dead_letters=Sink.foreach(dead.append))
    done = stream.run_with(Sink.to_list(), timeless)
    for _ in range(70):
        timeless.clock.advance("100ms")
    assert done.result(timeout=30) == [0, 2, 3]
    assert sorted(cancelled) == [1, 1, 1, 2]
    (letter,) = dead
    assert (letter.element, letter.attempts) == (1, 3)
    assert isinstance(letter.error, CallTimeout)
    assert str(letter.error).startswith(
        "map_async: the call with element 1 lasted longer than timeout, 2000 ms, and was cancelled"
    )


def test_the_timeout_holds_for_a_future_that_a_plain_function_returns(actor_system):
    never: Future[int] = Future()
    with pytest.raises(CallTimeout, match="map_async: the call with element 7 lasted longer than timeout, 20 ms"):
        Source.single(7).map_async(2, lambda x: never, timeout="20ms").run_with(Sink.head(), actor_system).result(30)
    assert never.cancelled()


def test_a_timeout_error_of_the_function_itself_is_passed_on(actor_system):
    async def call(x: int) -> int:
        raise TimeoutError("the service's own")

    with pytest.raises(TimeoutError, match="the service's own"):
        Source.single(7).map_async(2, call, timeout="5s").run_with(Sink.head(), actor_system).result(30)


@pytest.mark.expects_log("a blocking function cannot be stopped")
def test_a_blocking_function_keeps_its_late_result_and_a_warning_names_the_way_out(actor_system, caplog):
    def call(x: int) -> int:
        time.sleep(0.02)
        return x

    with caplog.at_level(logging.WARNING, "streamactors.stages.retry"):
        late = Source.single(7).map_async(2, call, timeout="1ms").run_with(Sink.to_list(), actor_system)
        assert late.result(timeout=30) == [7]
    assert any("use a coroutine function" in message and "timeout, 1 ms" in message for message in caplog.messages)


@pytest.mark.expects_log("circuit prices is open")
def test_the_breaker_counts_timeouts_and_a_call_it_refuses_is_no_dead_letter(actor_system):
    async def call(x: int) -> int:
        await asyncio.sleep(3_600)
        return x

    breaker = CircuitBreaker("prices", max_failures=2, reset_timeout="1h")
    dead: list[FailedElement] = []
    stream = Source.range(0, 9).map_async(
        1, call, timeout="5ms", breaker=breaker, dead_letters=Sink.foreach(dead.append)
    )
    with pytest.raises(CircuitOpen):  # the service is away: that is no fault of the elements
        stream.run_with(Sink.ignore(), actor_system).result(timeout=30)
    assert [letter.element for letter in dead] == [0, 1]


def test_an_error_that_restart_on_does_not_choose_is_a_dead_letter_after_one_attempt(actor_system):
    async def call(x: int) -> int:
        if x == 1:
            raise LookupError("404")
        return x

    retry = RestartSettings("1ms", "1ms", max_restarts=5, restart_on=lambda error: isinstance(error, OSError))
    dead: list[FailedElement] = []
    stream = Source.range(0, 3).map_async(2, call, retry=retry, dead_letters=Sink.foreach(dead.append))
    assert stream.run_with(Sink.to_list(), actor_system).result(timeout=30) == [0, 2]
    assert [shown(letter) for letter in dead] == [(1, "404", 1, "map_async")]


def test_an_element_whose_key_cannot_be_computed_is_a_dead_letter(actor_system):
    dead: list[FailedElement] = []
    keyed = Source.from_iterable([{"id": 1}, {}, {"id": 2}]).map_async_partitioned(
        4, lambda order: order["id"], lambda order: order["id"], dead_letters=Sink.foreach(dead.append)
    )
    assert keyed.run_with(Sink.to_list(), actor_system).result(timeout=30) == [1, 2]
    assert [shown(letter) for letter in dead] == [({}, "'id'", 1, "map_async_partitioned")]


def test_a_given_up_element_keeps_its_place_and_its_marks(timeless):
    async def call(x: int) -> int:
        if x == 1:
            raise OSError("busy")
        return x

    retry = RestartSettings("1s", "1s", random_factor=0, max_restarts=1)
    with Bench(timeless, MapAsync(4, call, retry=retry, gives_up=True)) as bench:
        bench.request(9)
        bench.send(0)
        bench.mark()
        bench.send(1)
        bench.mark()
        bench.send(2)
        bench.mark()
        bench.advance("900ms")
        assert (bench.received, bench.marks) == ([0], [1])
        bench.advance("200ms")
        assert [x if type(x) is int else x.element for x in bench.received] == [0, 1, 2]
        assert bench.marks == [1, 2, 3]
        bench.complete()


def test_what_is_no_sink_or_no_time_is_refused_where_it_is_written():
    with pytest.raises(BuildError, match="map_async_unordered: dead_letters must be a sink of FailedElement"):
        Flow.map_async_unordered(2, str, dead_letters="orders-dead")
    with pytest.raises(BuildError, match="map_async: timeout must be more than 0, got 0"):
        Flow.map_async(2, str, timeout=0)
