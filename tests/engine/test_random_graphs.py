"""Laws over random graphs of fan-ins, fan-outs, buffers and boundaries: each ends, and equals its model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings

from streamactors.actors.system import ActorSystem
from streamactors.engine.run import materialize, runs_of
from tests.engine.graphs import Collect, Graph, chain, graphs


def check(graph: Graph, system: ActorSystem) -> None:
    result = materialize(chain(graph.module, Collect()), system).result(10)
    if graph.ordered:
        assert result == graph.elements
    else:
        assert Counter(result) == Counter(graph.elements)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("random-graphs") as system:
        yield system
        assert not runs_of(system)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs())
def test_a_random_graph_ends_and_equals_its_model(system, graph):
    check(graph, system)


@pytest.mark.slow
@settings(max_examples=8_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(200))
def test_thousands_of_random_graphs_end_and_equal_their_models(system, graph):
    check(graph, system)
