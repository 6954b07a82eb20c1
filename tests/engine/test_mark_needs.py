"""What a reader of marks needs of the stages before it: exact cuts, no memory, or only that marks pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Source
from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import OPAQUE, Needs
from streamactors.engine.planning.mark_needs import check_needs
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import FLOW, SINK, SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError

PASSES, EXACT, FORGETS = Needs("the reader"), Needs("the reader", exact=True), Needs("the reader", no_memory=True)

FLOWS: dict[str, tuple[Any, bool, bool]] = {  # the flow, is it exact, does it remember
    "map": (lambda: Flow.identity().map(str), True, False),
    "map_async": (lambda: Flow.identity().map_async(2, later), True, False),
    "map_async_unordered": (lambda: Flow.identity().map_async_unordered(2, later), False, False),
    "merge": (lambda: Flow.identity().merge(Source.range(3)), False, False),
    "zip": (lambda: Flow.identity().zip(Source.range(3)), False, False),
    "flat_map_merge": (lambda: Flow.identity().flat_map_merge(2, lambda n: Source.range(n)), False, False),
    "scan": (lambda: Flow.identity().scan(0, lambda total, n: total + n), True, True),
    "grouped": (lambda: Flow.identity().grouped(2), False, True),
    "conflate": (lambda: Flow.identity().conflate(max), False, True),
}


async def later(n: int) -> int:
    return n


class Reader(GraphStage):
    """A sink that reads marks."""

    shape = SINK

    def __init__(self, needs: Needs) -> None:
        self.traits = StageTraits(reads_marks=True, needs=needs)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = Ignoring()
        return logic, logic.future


class Ignoring(SinkLogic):
    def on_chunk(self, chunk: list[Any]) -> None:
        """The elements do not matter."""


def refusal(system: ActorSystem, flow: Any, needs: Needs) -> str | None:
    from streamactors import Keep, Sink

    try:
        running = Source.range(3).via(flow()).to_mat(Sink.from_stage(Reader(needs)), Keep.right).run(system)
    except BuildError as error:
        return str(error)
    running.result(30)
    return None


@pytest.mark.parametrize("name", FLOWS)
def test_a_reader_refuses_the_stages_that_lack_what_it_needs_and_no_others(
    actor_system: ActorSystem, name: str
) -> None:
    flow, exact, remembers = FLOWS[name]
    assert refusal(actor_system, flow, PASSES) is None
    blurred, remembered = refusal(actor_system, flow, EXACT), refusal(actor_system, flow, FORGETS)
    assert (blurred is None) == exact, blurred
    assert (remembered is None) == (not remembers), remembered
    if blurred is not None:
        assert "needs exact cuts" in blurred
    if remembered is not None:
        assert "remembers earlier elements" in remembered


class Outlets(GraphStage):
    """A stage of a user's own. Without `reached` no mark of its inlet reaches an outlet."""

    shape = FLOW

    def __init__(self, *, reached: bool) -> None:
        self.traits = StageTraits(mark_ways=None if reached else frozenset())
        self.handling = OPAQUE


@pytest.mark.parametrize("opaque_first", [False, True])
def test_a_stage_that_no_mark_passes_by_hides_no_other_one_from_a_source_that_reads_marks(opaque_first: bool) -> None:
    class Reading(GraphStage):
        shape = SOURCE
        traits = StageTraits(emits_marks=True, needs=PASSES)

    stages = [Reading(), Outlets(reached=opaque_first), Outlets(reached=not opaque_first)]
    nodes: list[Any] = [SimpleNamespace(stage=stage, label=f"stage {at}") for at, stage in enumerate(stages)]
    edges = [((0, 0), (1, 0)), ((0, 1), (2, 0))]
    outgoing: Any = {0: edges, 1: [], 2: []}
    with pytest.raises(BuildError, match=f"stage 'stage {1 if opaque_first else 2}'"):
        check_needs(nodes, [0], outgoing, {0: [], 1: edges[:1], 2: edges[1:]}, set())


@pytest.mark.parametrize("opaque_first", [False, True])
def test_a_branch_that_carries_no_marks_hides_no_other_stage_from_a_sink_that_reads_marks(opaque_first: bool) -> None:
    stages = [Reader(PASSES), Outlets(reached=opaque_first), Outlets(reached=not opaque_first)]
    nodes: list[Any] = [SimpleNamespace(stage=stage, label=f"stage {at}") for at, stage in enumerate(stages)]
    incoming: Any = {0: [((1, 0), (0, 0)), ((2, 0), (0, 1))], 1: [], 2: []}
    with pytest.raises(BuildError, match=f"stage 'stage {1 if opaque_first else 2}'"):
        check_needs(nodes, [0], {}, incoming, set())
