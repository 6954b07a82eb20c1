"""The sentence of each kind of cause, as a reader gets it from a stream that really waits in that way."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Keep, Sink, Source, Zip


def banners(
    system: ActorSystem, holds: Callable[[list[dict[str, Any]]], object], seconds: float = 30.0
) -> list[dict[str, Any]]:
    """Return the banners of the first state for which `holds` is true."""
    with system.serve_dashboard() as page:
        page.watch()
        deadline = time.monotonic() + seconds
        while True:
            found: list[dict[str, Any]] = page.state()["banners"]
            if holds(found):
                return found
            assert time.monotonic() < deadline, found
            time.sleep(0.2)


def first(kind: str) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda found: bool(found) and found[0]["kind"] == kind


def slow(x: Any) -> Any:
    time.sleep(0.005)
    return x


def test_a_source_that_seldom_has_elements_holds_nothing_back() -> None:
    with ActorSystem("source") as system:
        Source.tick("1s", "1s", "x").named("ticks").map(str).to(Sink.ignore()).run(system)
        (found,) = banners(system, first("source"))
    assert not found["holds"]
    assert "ticks" in found["sentence"]
    assert "has no elements" in found["sentence"]


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_function_that_does_not_return_is_named_with_its_stage() -> None:
    gate = threading.Event()

    def wait(x: int) -> int:
        gate.wait(60)
        return x

    with ActorSystem("blocked") as system:
        Source.range(10**9).async_boundary().map(wait).named("call bank").to(Sink.ignore()).run(system)
        try:
            found = banners(system, first("blocked"))[0]
        finally:
            gate.set()
    assert found["sentence"].startswith("a function of call bank has not returned for ")


@pytest.mark.expects_log("threads are busy or blocked")
def test_a_pool_without_a_free_thread_is_said_once_for_all_graphs() -> None:
    with ActorSystem("pool", max_threads=2) as system:
        for n in range(6):
            Source.range(10**9).map(slow).named(f"work {n}").to(Sink.ignore()).run(system)
        found = banners(system, first("pool"))
    (pool,) = [each for each in found if each["kind"] == "pool"]
    assert "every thread of the pool is inside a turn" in pool["sentence"]
    assert "6 graphs share it; raise max_threads of the ActorSystem" in pool["sentence"]


def test_stages_that_wait_for_each_other_in_a_circle_are_named_with_the_way_out() -> None:
    with GraphDSL() as g:
        fan, pair = g.add(Broadcast(2)), g.add(Zip())
        g.add(Source.range(50_000)) >> fan
        fan.out(0) >> Flow.grouped(20_000) >> pair.in_(0)  # zip takes an element of the other branch only for a group
        fan.out(1) >> pair.in_(1)
        pair >> Sink.ignore()
    with ActorSystem("cycle") as system:
        g.to_runnable().run(system)
        found = banners(system, first("cycle"))[0]
    assert "the stages of a cycle wait for each other" in found["sentence"]
    assert "broadcast" in found["sentence"]
    assert "zip" in found["sentence"]
    assert "a buffer in the cycle" in found["sentence"]


def test_a_slow_sink_is_named_by_its_own_name_in_a_graph_that_has_a_name_too() -> None:
    with ActorSystem("sink") as system:
        Source.range(10**9).async_boundary().to(Sink.foreach(slow).named("write")).named("orders").run(system)
        found = banners(system, first("sink"))[0]
    assert found["sentence"].startswith("write works ")
    assert "1 stage upstream waits for its demand" in found["sentence"]


def test_calls_that_have_not_returned_are_told_from_work() -> None:
    async def call(x: int) -> int:
        await asyncio.sleep(0.3)
        return x

    with ActorSystem("calls") as system:
        Source.range(10**9).map_async(4, call).named("ask service").to(Sink.ignore()).run(system)
        found = banners(system, lambda found: bool(found) and "holds elements" in found[0]["sentence"])[0]
    assert found["sentence"].startswith("ask service holds elements ")
    assert "until its calls return" in found["sentence"]


def test_a_graph_that_has_failed_is_named_until_it_runs_again() -> None:
    # The graph that fed the others had failed. The page said that nothing holds the stream back, and that the others have no elements.
    fail = threading.Event()

    def decode(number: int) -> int:
        if fail.is_set():
            raise ValueError("a secret")
        return number

    graph = Source.range(10**9).throttle(100, "1s").map(decode).to_mat(Sink.ignore(), Keep.right).named("feed")
    with ActorSystem("failed") as system, system.serve_dashboard() as page:
        page.watch()

        def until(holds: Callable[[dict[str, Any]], object]) -> list[str]:
            deadline = time.monotonic() + 60
            while not holds(state := page.state()):
                assert time.monotonic() < deadline, state["banners"]
                time.sleep(0.2)
            return [each["sentence"] for each in state["banners"] if each["kind"] == "failed"]

        done = graph.run(system)
        assert until(lambda state: state["graphs"]) == []
        fail.set()
        assert isinstance(done.exception(30), ValueError)
        (said,) = until(lambda state: any(each["kind"] == "failed" for each in state["banners"]))
        assert said.startswith("feed has failed ")
        assert said.endswith(" s ago: ValueError"), "what a record contains is not shown"
        fail.clear()
        graph.run(system)
        assert until(lambda state: state["graphs"] and not any(b["kind"] == "failed" for b in state["banners"])) == []


def test_a_failure_that_a_stage_recovers_from_is_none_of_the_graph() -> None:
    with ActorSystem("recovers") as system, system.serve_dashboard() as page:
        page.watch()
        source = Source.range(50).throttle(50, "1s").map(lambda n: 1 // (40 - n)).recover(lambda error: -1)
        assert source.run_with(Sink.to_list(), system).result(60)[-1] == -1
        time.sleep(1.5)
        assert page.state()["banners"] == []
