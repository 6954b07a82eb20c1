"""What the readers say of real runs: shares, rates, failures, folding."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Sink, Source
from streamactors.dashboard.model import GraphState
from streamactors.dashboard.reading.doing import Doing, doing
from streamactors.dashboard.reading.folding import Node, folded
from streamactors.dashboard.reading.graphs import GraphReader
from streamactors.engine.island.run import runs_of
from streamactors.engine.supervision import resuming


def watched(system: ActorSystem, seconds: int = 2) -> GraphState:
    (run,) = runs_of(system)
    reader = GraphReader(run, 0, time.monotonic())
    state = reader.state(time.monotonic())
    for _ in range(seconds):
        for _ in range(20):
            reader.sample(time.monotonic())
            time.sleep(0.02)
        state = reader.state(time.monotonic())
    return state


def slow(x: Any) -> Any:
    time.sleep(0.002)
    return x


GRAPHS: dict[str, Callable[[], Any]] = {
    "decode": lambda: (
        Source.range(10**9)
        .named("numbers")
        .async_boundary()
        .map(slow)
        .named("decode")
        .async_boundary()
        .to(Sink.ignore())
    ),
    "write": lambda: (
        Source.range(10**9).named("numbers").async_boundary().map(lambda x: x).to(Sink.foreach(slow).named("write"))
    ),
    "in one island": lambda: (
        Source.range(10**9)
        .named("numbers")
        .buffer(100)
        .map(slow)
        .named("in one island")
        .buffer(100)
        .to(Sink.ignore().named("last"))
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_the_slow_stage_of_a_running_graph_is_the_culprit(name: str) -> None:
    with ActorSystem("slow") as system:
        GRAPHS[name]().run(system)
        state = watched(system)
    marked = [stage for stage in state.stages if stage.culprit]
    assert [stage.name.endswith(name) for stage in marked] == [True], state
    assert marked[0].works > 0.8
    assert state.causes[0].stage == marked[0].id
    for stage in state.stages:
        assert stage.works + stage.waits_for_demand + stage.waits_for_elements <= 1.01


def test_calls_that_have_not_returned_hold_elements() -> None:
    gate = threading.Event()

    async def call(x: int) -> int:
        import asyncio

        while not gate.is_set():
            await asyncio.sleep(0.01)
        return x

    with ActorSystem("calls") as system:
        Source.range(10**6).map_async(4, call).named("ask").to(Sink.ignore()).run(system)
        state = watched(system, 1)
        gate.set()
    assert [stage.name for stage in state.stages if stage.culprit] == ["ask"], state
    assert "holds elements" in state.causes[0].sentence
    (ask,) = (stage for stage in state.stages if stage.name == "ask")
    assert ask.outside >= ask.works / 2, "the calls have not returned, and the stage itself does nothing"


def test_rates_are_what_the_sink_counts() -> None:
    taken = 0

    def count(_: object) -> None:
        nonlocal taken
        taken += 1

    with ActorSystem("rates") as system:
        Source.range(10**9).throttle(500, "1s").to(Sink.foreach(count)).run(system)
        (run,) = runs_of(system)
        reader = GraphReader(run, 0, time.monotonic())
        reader.sample(time.monotonic())
        began, before = time.monotonic(), taken
        reader.state(began)
        time.sleep(2.0)
        ended = time.monotonic()
        state = reader.state(ended)  # a process that is frozen after this line has the same rate
        rate = (taken - before) / (ended - began)
        assert state.stages[-1].elements == pytest.approx(taken, abs=30)
    assert state.stages[-1].elements_per_s == pytest.approx(rate, rel=0.1)
    assert state.edges[-1].per_s == pytest.approx(rate, rel=0.1)


@pytest.mark.expects_log("skipped", again=True)
def test_elements_that_supervision_drops_are_failures_of_their_stage() -> None:
    def odd(x: int) -> int:
        if x % 2:
            raise ValueError(x)
        return x

    for fused in (True, False):
        numbers = Source.range(100).concat(Source.never())
        flow = Flow.map(odd).named("odd").with_attributes(decider=resuming)
        parts = numbers.via(flow.map(lambda x: x) if fused else flow)
        with ActorSystem("failures") as system:
            parts.to(Sink.ignore()).run(system)
            state = watched(system, 1)
        assert [(stage.failures, "odd" in stage.name) for stage in state.stages if stage.failures] == [(50, True)]


def test_equal_substreams_are_one_stage_with_a_count() -> None:
    with ActorSystem("folded") as system:
        (
            Source.range(10**9)
            .throttle(2_000, "1s")
            .group_by(lambda x: x % 100, 200)
            .map(lambda x: x)
            .named("each")
            .merge_substreams()
            .to(Sink.ignore())
            .run(system)
        )
        state = watched(system)
    (each,) = [stage for stage in state.stages if stage.group]
    assert (each.count, each.group) == (100, "substreams of group_by")
    assert len(state.stages) <= 5
    ids = {stage.id for stage in state.stages}
    assert {edge.source for edge in state.edges} | {edge.target for edge in state.edges} <= ids


def test_stages_of_the_graph_itself_are_never_folded() -> None:
    nodes = [Node(0, "", "map", "m"), Node(1, "", "map", "m"), Node(2, "g", "map", "m"), Node(3, "g", "map", "m")]
    assert folded(nodes, []) == {0: 0, 1: 1, 2: 2, 3: 2}
    assert folded(nodes, [(2, 3)]) == {0: 0, 1: 1, 2: 2, 3: 3}, "at another depth"


class Port:
    def __init__(self, asked: int = 0, ready: int = 0, wanting: bool = False, ended: bool = False) -> None:
        self.asked, self.ready, self.wanting = asked, ready, wanting
        self.queued = False
        self.finished = ended
        self.terminal = "end" if ended else None
        self.cause = None


@pytest.mark.parametrize(
    ("inlets", "outlets", "expected"),
    [
        ([], [Port(asked=0)], Doing.DEMAND),
        ([], [Port(asked=5)], Doing.ELEMENTS),
        ([Port(asked=5)], [Port(asked=5)], Doing.ELEMENTS),
        ([Port(asked=0, ready=3)], [Port(asked=0)], Doing.DEMAND),
        ([Port(asked=0, ready=3)], [Port(asked=5)], Doing.WORKS),
        ([Port(asked=0, ready=3, wanting=True)], [Port(asked=5)], Doing.TURN),
        ([Port(asked=5), Port(ready=3)], [Port(asked=5)], Doing.ELEMENTS),
        ([Port(asked=5), Port(ready=3)], [Port(asked=0)], Doing.DEMAND),
        ([Port(asked=5), Port(ended=True)], [Port(asked=0)], Doing.ELEMENTS),
        ([Port(ready=1)], [Port(asked=3), Port(asked=0)], Doing.DEMAND),
        ([Port(asked=0)], [], Doing.WORKS),
        ([Port(asked=1)], [], Doing.ELEMENTS),
    ],
)
def test_what_a_stage_does(inlets: list[Port], outlets: list[Port], expected: Doing) -> None:
    assert doing(False, inlets, outlets) is expected
    assert doing(True, inlets, outlets) is Doing.WORKS
