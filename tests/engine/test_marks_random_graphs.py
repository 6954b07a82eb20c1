"""Laws of the marks over random graphs: what is done has arrived, nothing that arrived stays undone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.engine.blueprint.modules import AsyncBoundary, StageModule, Wired
from streamactors.engine.materializing.materializer import materialize
from streamactors.stages.junctions.fan_out import Broadcast
from tests.engine.graphs import Collect, Graph, chain, graphs


@pytest.fixture(scope="module")
def system():
    with ActorSystem("marks") as system:
        yield system


def check(graph: Graph, two_sinks: bool, system: ActorSystem) -> None:
    received: list[list[object]] = [[], []]
    expected = Counter(graph.elements)
    wrong: list[str] = []
    last: dict[int, int] = {}
    for leaf in graph.leaves:
        last[leaf.number] = 0

        def hook(position: int, number: int = leaf.number) -> None:
            if position < last[number]:
                wrong.append(f"position went back from {last[number]} to {position}")
            last[number] = position
            due = Counter({x: n for x, n in expected.items() if any(leaf == number and i < position for leaf, i in x)})
            for sink in received if two_sinks else received[:1]:
                missing = due - Counter(sink)
                if missing:
                    wrong.append(f"{position} of leaf {number} done, yet missing: {missing}")

        leaf.hook = hook
    first = chain(AsyncBoundary(2), Collect(received[0]))
    if two_sinks:
        module = Wired(
            (graph.module, StageModule(Broadcast(2)), first, StageModule(Collect(received[1]))),
            (((0, 0), (1, 0)), ((1, 0), (2, 0)), ((1, 1), (3, 0))),
            (),
            (),
            lambda values: values[2:],
        )
        for done in materialize(module, system):
            done.result(10)
    else:
        materialize(chain(graph.module, first), system).result(10)
    assert not wrong, wrong
    if graph.drained:
        assert last == {leaf.number: leaf.n for leaf in graph.leaves}, "the last mark must arrive"


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(30, follow=True), two_sinks=st.booleans())
def test_what_is_done_has_arrived_and_all_is_done_at_the_end(system, graph, two_sinks):
    check(graph, two_sinks, system)


@pytest.mark.slow
@settings(max_examples=5_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(100, follow=True), two_sinks=st.booleans())
def test_what_is_done_has_arrived_in_thousands_of_graphs(system, graph, two_sinks):
    check(graph, two_sinks, system)
