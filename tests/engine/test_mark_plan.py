"""The plan of the marks beside a plain search: a source's marks reach an edge if a path of stages that pass them leads there."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.engine.planning.mark_plan import MarkPlan, plan_marks
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError

Edge = tuple[tuple[int, int], tuple[int, int]]


def stage(
    inlets: int = 1,
    outlets: int = 1,
    ways: set[tuple[int, int]] | None = None,
    passing: bool = True,
    *,
    forgets: str = "",
    keeps_changelog: bool = False,
    members: Sequence[Any] = (),
    **traits: Any,
) -> Any:
    """`ways`: pairs of inlet and outlet that marks connect, None: all; `passing`: marks pass the stage."""
    return SimpleNamespace(
        shape=SimpleNamespace(inlets=(None,) * inlets, outlets=(None,) * outlets),
        handling=SimpleNamespace(passes=passing),
        traits=StageTraits(
            **{"emits_marks": inlets == 0, "mark_ways": None if ways is None else frozenset(ways), **traits}
        ),
        forgets=forgets,
        keeps_changelog=keeps_changelog,
        members=members,
    )


def plan(stages: list[Any], edges: list[Edge], partial: bool = False) -> MarkPlan:
    nodes = [
        SimpleNamespace(stage=each, attributes=SimpleNamespace(replay=None), label=f"stage {at}")
        for at, each in enumerate(stages)
    ]
    return plan_marks(nodes, edges, partial)  # type: ignore[arg-type]


def chain(*stages: Any) -> MarkPlan:
    return plan(list(stages), [((at, 0), (at + 1, 0)) for at in range(len(stages) - 1)])


def reader(**more: Any) -> Any:
    return stage(1, 0, reads_marks=True, **more)


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[Any], list[Edge]]:
    """Graphs with junctions and loops; every inlet and outlet has at most one edge."""
    count = draw(st.integers(2, 6))
    stages, outs, ins = [], [], []
    for at in range(count):
        inlets, outlets = draw(st.integers(0, 2)), draw(st.integers(0, 2))
        pairs = st.tuples(st.integers(0, 1), st.integers(0, 1))
        own = bool(inlets) and draw(st.booleans())
        passing = draw(st.booleans())
        stages.append(stage(inlets, outlets, draw(st.sets(pairs)), passing, marks_timer_results=own))
        outs += [(at, port) for port in range(outlets)]
        ins += [(at, port) for port in range(inlets)]
    size = min(len(outs), len(ins))
    edges = list(zip(draw(st.permutations(outs))[:size], draw(st.permutations(ins))[:size], strict=True))
    return stages, edges


def loops(stages: list[Any], edges: list[Edge]) -> set[int]:
    after: dict[int, set[int]] = {
        at: {target for (source, _), (target, _) in edges if source == at} for at in range(len(stages))
    }
    for _ in stages:
        for known in after.values():
            known.update(*(after[each] for each in set(known)))
    return {at for at, known in after.items() if at in known}


def onward(edge: Edge, stages: list[Any], edges: list[Edge]) -> list[Edge]:
    """The edges on which marks of an edge leave the stage that it leads to."""
    target, inlet = edge[1]
    here = stages[target]
    if target in loops(stages, edges) or not here.handling.passes:
        return []
    return [each for each in edges if each[0][0] == target and here.traits.marks_reach(inlet, each[0][1])]


def reached(first: list[Edge], stages: list[Any], edges: list[Edge]) -> set[Edge]:
    """Search from the edges of one source, edge by edge."""
    found: set[Edge] = set()
    work = first
    while work:
        edge = work.pop()
        if edge not in found:
            found.add(edge)
            work += onward(edge, stages, edges)
    return found


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_marks_are_on_each_edge_that_a_path_of_passing_stages_reaches(graph: Any) -> None:
    stages, edges = graph
    sources = [at for at, each in enumerate(stages) if each.traits.emits_marks]
    made = plan(stages, edges, partial=True)
    if not sources:
        assert made == MarkPlan()
        return
    ways = {source: reached([edge for edge in edges if edge[0][0] == source], stages, edges) for source in sources}
    passed = set().union(*ways.values())
    for at, each in enumerate(stages):  # a stage marks its own results where it passes the marks of sources
        if each.traits.marks_timer_results:
            arrived = [edge for edge in passed if edge[1][0] == at]
            ways[at] = reached([each for edge in arrived for each in onward(edge, stages, edges)], stages, edges)
    assert made.carries == {edge: {source for source in ways if edge in ways[source]} for edge in edges}
    arriving = {
        at: {source for source in ways for edge in ways[source] if edge[1] == (at, 0)}
        for at, each in enumerate(stages)
        if not each.shape.outlets
    }
    assert made.sinks == {at: found for at, found in arriving.items() if found}
    assert not made.active


def test_a_graph_in_which_nobody_reads_marks_has_no_plan() -> None:
    assert chain(stage(0), stage(), stage(1, 0)) == MarkPlan()
    assert chain(stage(0), stage(), reader()) == MarkPlan(
        True, {((0, 0), (1, 0)): frozenset({0}), ((1, 0), (2, 0)): frozenset({0})}, {2: frozenset({0})}
    )


def test_a_stage_that_restarts_without_marks_is_refused_before_a_reader() -> None:
    restarting = stage(no_marks="loses elements at a restart")
    with pytest.raises(BuildError, match="'stage 1' loses elements at a restart, and stage 2 would count"):
        chain(stage(0), restarting, reader())
    chain(stage(0), restarting, stage(1, 0))
    inside = stage(members=[SimpleNamespace(stage=restarting, label="inside")])
    with pytest.raises(BuildError, match="'inside' loses"):
        chain(stage(0), inside, reader())


def test_two_owners_of_the_positions_of_one_source_are_refused() -> None:
    def owned(first: str, second: str, splits: bool = True) -> MarkPlan:
        """A source whose stream is split over two sinks, and without `splits` two sources with a sink each."""
        ends = [reader(owns_positions=first), reader(owns_positions=second)]
        if splits:
            return plan(
                [stage(0, owns_positions=""), stage(1, 2), *ends],
                [((0, 0), (1, 0)), ((1, 0), (2, 0)), ((1, 1), (3, 0))],
            )
        return plan([stage(0), stage(0), *ends], [((0, 0), (2, 0)), ((1, 0), (3, 0))])

    with pytest.raises(BuildError, match="would have 2 owners in one run, a and b"):
        owned("a", "b")
    owned("a", "a")
    owned("a", "")
    owned("a", "b", splits=False)
    with pytest.raises(BuildError, match="the positions of 'stage 0' would have 2 owners"):
        chain(stage(0, owns_positions="the group"), reader(owns_positions="the sink"))


def test_the_error_of_two_owners_names_the_source_and_no_stage_that_marks_its_own_results() -> None:
    stages = [stage(1, 2, marks_timer_results=True), stage(0), reader(owns_positions="a"), reader(owns_positions="b")]
    with pytest.raises(BuildError, match="the positions of 'stage 1' would have 2 owners"):
        plan(stages, [((1, 0), (0, 0)), ((0, 0), (2, 0)), ((0, 1), (3, 0))])


def test_a_stream_of_sources_is_not_split_before_they_are_opened() -> None:
    def split(*between: Any, ways: set[tuple[int, int]] | None = None) -> MarkPlan:
        stages = [stage(0, inner_sources="emits"), *between, stage(1, 2, ways), reader(), reader()]
        edges: list[Edge] = [((at, 0), (at + 1, 0)) for at in range(len(between) + 1)]
        junction = len(between) + 1
        return plan(stages, [*edges, ((junction, 0), (junction + 1, 0)), ((junction, 1), (junction + 2, 0))])

    with pytest.raises(
        BuildError, match="stage 0 emits a source per partition, and stage 'stage 1' splits these sources"
    ):
        split()
    with pytest.raises(BuildError, match="'stage 2' splits"):
        split(stage())
    split(stage(inner_sources="runs"))
    split(ways={(0, 1)})  # the other outlet gets something else


def test_a_forgotten_state_behind_a_changelog_is_told(caplog: pytest.LogCaptureFixture) -> None:
    for keeps, forgets in ((True, True), (True, False), (False, True)):
        caplog.clear()
        with caplog.at_level(logging.WARNING, "streamactors.engine"):
            chain(stage(0, keeps_changelog=keeps), stage(forgets="its fold; use windows" if forgets else ""), reader())
        assert ("'stage 1' downstream of 'stage 0' forgets its fold; use windows" in caplog.text) == (keeps and forgets)
