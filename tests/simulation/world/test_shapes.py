"""A graph has the same result in a world as outside, whatever its operators are."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem
from streamactors.engine.materializing.materializer import materialize
from streamactors.simulation.world.simulated import SimulatedWorld
from tests.engine.graphs import Collect, Graph, chain, graphs
from tests.simulation.world.shapes import SHAPES, run


@pytest.mark.parametrize("name", SHAPES)
def test_a_graph_has_the_same_result_inside_and_outside(name: str) -> None:
    outside = run(name)
    for seed in range(5):
        assert SimulatedWorld(seed).run(lambda: run(name)) == outside


@settings(max_examples=60)
@given(graph=graphs(hubs=True), seed=st.integers(0, 1 << 32))
def test_a_random_graph_equals_its_model_in_a_world(graph: Graph, seed: int) -> None:
    def main() -> list[int]:
        with ActorSystem("graph") as system:
            return materialize(chain(graph.module, Collect()), system).result(60)

    result = SimulatedWorld(seed).run(main)
    assert result == graph.elements if graph.ordered else Counter(result) == Counter(graph.elements)
