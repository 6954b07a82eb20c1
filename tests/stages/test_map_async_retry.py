"""map_async(retry=…): failed calls are made again, in their place, while other calls run."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.engine.attributes import Attributes
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError
from streamactors.stages.asynchronous.map_async import MapAsync, MapAsyncUnordered
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned
from streamactors.stages.restart_settings import RestartSettings
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, Hook, check_run
from tests.stages.test_laws_async import all_in_any_order, each
from tests.stages.test_laws_simple import SLOW_OK

RETRY = RestartSettings("2ms", "8ms", random_factor=0, max_restarts=3)


def flaky(hook: Hook) -> Any:
    """A coroutine function whose calls fail x % 3 times for the element x."""
    calls: Counter[int] = Counter()

    async def call(x: int) -> Any:
        hook(x)
        calls[x] += 1
        await asyncio.sleep(x * 7 % 5 / 1_000)
        if calls[x] <= x % 3:
            raise OSError("busy")
        return (x,)

    return call


def flaky_plain(hook: Hook) -> Any:
    calls: Counter[int] = Counter()

    def call(x: int) -> Any:
        hook(x)
        calls[x] += 1
        if calls[x] <= x % 3:
            raise OSError("busy")
        return (x,)

    return call


CASES = {
    "ordered": Case(lambda h: MapAsync(3, flaky(h), retry=RETRY), each, demand=lambda n: n + 3, step_ms=9),
    "plain": Case(lambda h: MapAsync(3, flaky_plain(h), retry=RETRY), each, demand=lambda n: n + 3, step_ms=9),
    "unordered": Case(
        lambda h: MapAsyncUnordered(3, flaky(h), retry=RETRY),
        each,
        verify=all_in_any_order,
        demand=lambda n: n + 3,
        step_ms=9,
    ),
    "partitioned": Case(
        lambda h: MapAsyncPartitioned(4, lambda x: x % 3, flaky(h), retry=RETRY),
        each,
        demand=lambda n: n + 4,
        step_ms=9,
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_with_retries_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, run):
    check_run(CASES[name], timeless, run)


def test_retries_keep_the_parallelism(timeless):
    # `flow.retry(3, …)` around map_async(8, …) made one call at a time: 16 calls of 0.1 s took 1.6 s
    running, most, calls = 0, 0, Counter()

    async def call(x: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.1)
        running -= 1
        calls[x] += 1
        if calls[x] == 1:
            raise OSError("busy")
        return x

    retry = RestartSettings("10ms", "10ms", random_factor=0, max_restarts=1)
    with Bench(timeless, MapAsync(8, call, retry=retry)) as bench:
        bench.request(20)
        bench.send(*range(16))
        bench.complete()
        bench.advance("0.42s")  # two waves of 0.1 + 0.01 + 0.1 s
        assert bench.received == [*range(16)]
        assert bench.end == "completed"
    assert most == 8
    assert set(calls.values()) == {2}


def test_an_element_that_waits_for_its_attempt_holds_the_marks_behind_it_and_no_other_call(timeless):
    first = True

    async def call(x: int) -> int:
        nonlocal first
        if x == 0 and first:
            first = False
            raise OSError("busy")
        return x

    retry = RestartSettings("1s", "1s", random_factor=0)
    with Bench(timeless, MapAsync(4, call, retry=retry)) as bench:
        bench.request(9)
        bench.send(0)
        bench.mark()
        bench.send(1, 2)
        bench.mark()
        bench.advance("900ms")
        assert bench.received == []
        assert bench.marks == []
        assert bench.logic.snapshot_state() == "3 of 4 calls, 1 between two attempts"
        bench.advance("200ms")
        assert bench.received == [0, 1, 2]
        assert bench.marks == [1, 3]
        bench.complete()


def test_elements_of_a_key_stay_in_their_order_while_one_is_tried_again(timeless):
    begun: list[int] = []

    async def call(x: int) -> int:
        begun.append(x)
        if x == 0 and begun.count(0) == 1:
            raise OSError("busy")
        return x

    retry = RestartSettings("1s", "1s", random_factor=0)
    with Bench(timeless, MapAsyncPartitioned(8, lambda x: x % 2, call, retry=retry)) as bench:
        bench.request(9)
        bench.send(0, 1, 2, 3)
        bench.advance("500ms")
        assert begun == [0, 1, 3], "2 has the key of 0, which is not done"
        bench.advance("1s")
        assert begun == [0, 1, 3, 0, 2]
        assert bench.received == [0, 1, 2, 3]
        bench.complete()


def test_the_error_of_the_last_attempt_fails_the_stage_and_says_how_many_there_were(timeless):
    calls: list[int] = []

    async def call(x: int) -> int:
        calls.append(x)
        raise OSError("down")

    retry = RestartSettings("1ms", "1ms", random_factor=0, max_restarts=2)
    with Bench(timeless, MapAsync(2, call, retry=retry)) as bench:
        bench.request(1)
        bench.send(7)
        bench.advance("1s")
        assert calls == [7, 7, 7]
        assert isinstance(bench.end, OSError)
        assert "map_async: attempt 3 of 3" in bench.end.__notes__
        assert any("in stage map_async, element 7" in note for note in bench.end.__notes__)


@pytest.mark.expects_log("skipped: ")
def test_supervision_is_asked_after_the_last_attempt_only(timeless):
    calls: Counter[int] = Counter()

    async def call(x: int) -> int:
        calls[x] += 1
        if x == 1:
            raise OSError("down")
        return x

    retry = RestartSettings("1ms", "1ms", random_factor=0, max_restarts=2)
    with Bench(timeless, MapAsync(2, call, retry=retry), Attributes(decider=resuming)) as bench:
        bench.request(9)
        bench.send(0, 1, 2)
        bench.advance("1s")
        assert bench.received == [0, 2]
        assert calls == {0: 1, 1: 3, 2: 1}
        bench.complete()


def test_errors_that_restart_on_does_not_choose_are_not_tried_again(timeless):
    calls: list[int] = []

    async def call(x: int) -> int:
        calls.append(x)
        raise ValueError("no such order")

    retry = RestartSettings("1ms", "1ms", restart_on=lambda error: isinstance(error, OSError))
    with Bench(timeless, MapAsync(2, call, retry=retry)) as bench:
        bench.request(1)
        bench.send(7)
        bench.advance("1s")
        assert calls == [7]
        assert isinstance(bench.end, ValueError)


def test_an_error_of_restart_on_fails_the_stage_and_names_it(timeless):
    def chosen(error: BaseException) -> bool:
        raise KeyError("unknown")

    retry = RestartSettings("1ms", "1ms", restart_on=chosen)
    with Bench(timeless, MapAsync(2, lambda x: 1 // x, retry=retry)) as bench:
        bench.request(1)
        bench.send(0)
        assert isinstance(bench.end, KeyError)
        assert any("restart_on" in note for note in bench.end.__notes__)


@settings(max_examples=30, deadline=None)
@given(failures=st.integers(0, 6))
def test_the_delays_are_those_of_the_settings(timeless, failures):
    times: dict[int, list[float]] = defaultdict(list)

    async def call(x: int) -> int:
        times[x].append(timeless.clock.now_ms())
        if len(times[x]) <= failures:
            raise OSError("busy")
        return x

    retry = RestartSettings("10ms", "80ms", random_factor=0)
    with Bench(timeless, MapAsync(2, call, retry=retry)) as bench:
        bench.request(1)
        bench.send(5)
        bench.advance("1s")
        assert bench.received == [5]
        bench.complete()
    waits = [later - earlier for earlier, later in zip(times[5], times[5][1:], strict=False)]
    assert waits == pytest.approx([min(80, 10 * 2**n) for n in range(failures)])


def test_a_retry_that_is_no_settings_is_refused_where_it_is_written():
    with pytest.raises(BuildError, match="map_async: retry must be RestartSettings, got int 3"):
        MapAsync(2, str, retry=3)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="map_async_unordered: breaker must be a CircuitBreaker, got str 'pay'"):
        MapAsyncUnordered(2, str, breaker="pay")  # type: ignore[arg-type]
