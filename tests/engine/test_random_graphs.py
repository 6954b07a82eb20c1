"""Laws over random graphs of fan-ins, fan-outs, buffers and boundaries: each ends, and equals its model."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.actors.system import ActorSystem
from streamactors.engine.blueprint.modules import AsyncBoundary, Attributed, Attributes, StageModule, Wired
from streamactors.engine.island.run import runs_of
from streamactors.engine.materializing.materializer import materialize
from streamactors.stages.junctions.sides_first import AlsoTo
from streamactors.stages.sinks.foreach import Foreach
from tests.actors.eventually import eventually
from tests.engine.graphs import Collect, Graph, chain, graphs


def check(graph: Graph, system: ActorSystem) -> None:
    result = materialize(chain(graph.module, Collect()), system).result(60)
    if graph.ordered:
        assert result == graph.elements
    else:
        assert Counter(result) == Counter(graph.elements)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("random-graphs") as system:
        yield system
        eventually(lambda: not runs_of(system))  # a run ends after its result


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(hubs=True))
def test_a_random_graph_ends_and_equals_its_model(system, graph):
    check(graph, system)


@pytest.mark.slow
@pytest.mark.timeout(600)  # a minute and a half beside other work
@settings(max_examples=8_000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(200, hubs=True))
def test_thousands_of_random_graphs_end_and_equal_their_models(system, graph):
    check(graph, system)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(processes=True))
def test_a_random_graph_with_worker_processes_ends_and_equals_its_model(system, graph):
    check(graph, system)


@pytest.mark.slow
@pytest.mark.timeout(600)
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(200, processes=True))
def test_hundreds_of_random_graphs_with_worker_processes_equal_their_models(system, graph):
    check(graph, system)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(graph=graphs(), k=st.integers(0, 40), boundary=st.booleans(), chunk=st.integers(1, 50))
def test_a_side_sink_that_fails_at_any_element_of_a_random_graph_fails_the_stream(system, graph, k, boundary, chunk):
    seen = iter(range(k))

    def fails_after_k(element):
        if next(seen, None) is None:
            raise Boom

    side = chain(AsyncBoundary(4), Foreach(fails_after_k)) if boundary else StageModule(Foreach(fails_after_k))
    fork = Wired((graph.module, StageModule(AlsoTo(1)), side), (((0, 0), (1, 0)), ((1, 1), (2, 0))), (), ((1, 0),), len)
    result = materialize(Attributed(chain(fork, Collect()), Attributes(max_chunk=chunk)), system)
    assert type(result.exception(10)) is (Boom if k < len(graph.elements) else type(None))


class Boom(Exception):
    pass
