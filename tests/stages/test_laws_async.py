"""The laws for operators that call a function for several elements at a time."""

from __future__ import annotations

import asyncio
import concurrent.futures
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.actors.messages import Actor
from streamactors.engine.attributes import Attributes
from streamactors.engine.supervision import resuming
from streamactors.stages.asynchronous.asking import Ask
from streamactors.stages.asynchronous.map_async import MapAsync, MapAsyncUnordered
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned
from tests.stages.harness import Bench
from tests.stages.laws import RUNS, Case, Hook, check_resume, check_run
from tests.stages.test_laws_simple import SLOW_OK, tapped

pytestmark = pytest.mark.expects_log("skipped: ")


def coroutine(hook: Hook) -> Any:
    """A coroutine function that takes 0 to 4 ms of virtual time."""

    async def call(x: int) -> Any:
        hook(x)
        await asyncio.sleep(x * 7 % 5 / 1_000)
        return (x,)

    return call


def future(hook: Hook) -> Any:
    """A plain function that returns a future."""

    def call(x: int) -> Any:
        made: concurrent.futures.Future[Any] = concurrent.futures.Future()
        try:
            hook(x)
            made.set_result((x,))
        except Exception as error:
            made.set_exception(error)
        return made

    return call


def plain(hook: Hook) -> Any:
    return tapped(hook, lambda x: (x,))


def each(xs: list[int]) -> list[Any]:
    return [(x,) for x in xs]


def all_in_any_order(received: list[Any], sent: list[int], completed: bool) -> None:
    flat = sorted(x for (x,) in received)
    assert flat == sent if completed else set(flat) <= set(sent)
    assert len(set(flat)) == len(flat)


CASES = {
    "map_async_coroutine": Case(lambda h: MapAsync(3, coroutine(h)), each, demand=lambda n: n + 3, step_ms=5),
    "map_async_plain": Case(lambda h: MapAsync(3, plain(h)), each, demand=lambda n: n + 3),
    "map_async_future": Case(lambda h: MapAsync(3, future(h)), each, demand=lambda n: n + 3),
    "unordered_coroutine": Case(
        lambda h: MapAsyncUnordered(3, coroutine(h)), each, verify=all_in_any_order, demand=lambda n: n + 3, step_ms=5
    ),
    "unordered_plain": Case(
        lambda h: MapAsyncUnordered(3, plain(h)), each, verify=all_in_any_order, demand=lambda n: n + 3
    ),
    "partitioned_coroutine": Case(
        lambda h: MapAsyncPartitioned(4, lambda x: x % 3, coroutine(h)), each, demand=lambda n: n + 4, step_ms=5
    ),
    "partitioned_plain": Case(
        lambda h: MapAsyncPartitioned(4, lambda x: x % 2, plain(h), per_partition=2), each, demand=lambda n: n + 4
    ),
    "partitioned_key": Case(
        lambda h: MapAsyncPartitioned(4, tapped(h, lambda x: x % 2), lambda x: (x,)), each, demand=lambda n: n + 4
    ),
}


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, run):
    check_run(CASES[name], timeless, run)


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_OK)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=4), at=st.integers(0, 9))
def test_resume_leaves_out_the_element_that_raised(timeless, name, sizes, at):
    if "unordered" not in name:
        check_resume(CASES[name], timeless, sizes, at)


class Doubling(Actor):
    def receiveMessage(self, message, sender):
        if isinstance(message, int):
            self.send(sender, (message,))


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW_OK)
@given(run=RUNS)
def test_ask_keeps_the_laws(timeless, run):
    actor = timeless.spawn(Doubling)
    try:
        check_run(Case(lambda _: Ask(actor, "1s", 3), each, demand=lambda n: n + 3), timeless, run)
    finally:
        from streamactors.actors.messages import ActorExitRequest

        actor.tell(ActorExitRequest())


@pytest.mark.parametrize("name", ["unordered_coroutine", "unordered_plain"])
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW_OK)
@given(n=st.integers(1, 12), at=st.sets(st.integers(0, 11), max_size=12))
def test_a_call_that_supervision_drops_leaves_no_result_in_any_order(timeless, name, n, at):
    def hook(element: int) -> None:
        if element in at:
            raise ValueError(f"at {element}")

    with Bench(timeless, CASES[name].make(hook), Attributes(decider=resuming)) as bench:
        bench.request(n + 1)
        for element in range(n):  # one call at a time could be dropped and never free its place
            bench.send(element)
            bench.mark()
        bench.advance("100ms")
        assert sorted(bench.received) == [(x,) for x in range(n) if x not in at]
        assert bench.marks[-1] == n, "a dropped element is done: the mark behind it passes"
        bench.complete()
        assert bench.end == "completed"


def test_an_element_whose_key_raises_is_dropped_without_a_result(timeless):
    def key(x: int) -> int:
        if x == 1:
            raise ValueError("no key")
        return x

    with Bench(timeless, MapAsyncPartitioned(2, key, str), Attributes(decider=resuming)) as bench:
        bench.request(10)
        bench.send(0, 1, 2, 3)
        bench.complete()
        assert bench.received == ["0", "2", "3"]
        assert bench.end == "completed"


def test_a_key_that_raises_stops_the_stream_behind_the_results_before_it(timeless):
    def key(x: int) -> Any:
        return [] if x == 2 else x  # a list has no hash

    with Bench(timeless, MapAsyncPartitioned(1, key, str)) as bench:
        bench.request(10)
        bench.send(0, 1, 2)
        assert bench.received == ["0", "1"]
        assert isinstance(bench.end, TypeError)


def test_a_result_of_none_is_an_element(timeless):
    for stage in (MapAsync(2, lambda x: None), MapAsyncUnordered(2, lambda x: None)):
        with Bench(timeless, stage) as bench:
            bench.request(5)
            bench.send(1, 2)
            assert bench.received == [None, None]
