"""GraphDSL: wiring in any order, junctions, cycles, partial graphs, and what it says about mistakes."""

from __future__ import annotations

import pytest

from streamactors import Balance, Broadcast, Flow, GraphDSL, Keep, Merge, Partition, RunnableGraph, Sink, Source, Zip
from streamactors.dsl.graph.component import BidiFlow
from streamactors.errors import BuildError
from streamactors.testing import TestSink


def test_the_graph_of_the_design_page(actor_system):
    with GraphDSL() as g:
        source, fan, join = g.add(Source.from_iterable(range(10))), g.add(Broadcast(2)), g.add(Merge(2))
        source >> fan
        fan.out(0) >> Flow.map(lambda x: x * 10) >> join.in_(0)
        fan.out(1) >> join.in_(1)
        join >> g.add(Sink.to_list(), keep=True)
    (result,) = g.to_runnable().run(actor_system)
    assert sorted(result.result(30)) == sorted([x * 10 for x in range(10)] + list(range(10)))


def test_wires_may_be_written_in_any_order_and_either_direction(actor_system):
    with GraphDSL() as g:
        zipped = g.add(Zip())
        fan = g.add(Broadcast(2))
        zipped >> g.add(Sink.to_list(), keep=True)
        zipped.in_(1) << fan.out(1)
        Source.range(3) >> fan
        fan.out(0) >> Flow.map(str) >> zipped.in_(0)
    assert g.to_runnable().run(actor_system)[0].result(30) == [("0", 0), ("1", 1), ("2", 2)]


def test_without_a_port_the_first_free_one_is_meant(actor_system):
    with GraphDSL() as g:
        fan, join = g.add(Broadcast(3)), g.add(Merge(3))
        Source.range(2) >> fan
        for factor in (1, 10, 100):
            fan >> Flow.map(lambda x, by=factor: x * by) >> join
        join >> g.add(Sink.to_list(), keep=True)
    assert sorted(g.to_runnable().run(actor_system)[0].result(30)) == [0, 0, 0, 1, 10, 100]


def test_kept_values_come_in_the_order_of_adding_and_none_without_any(actor_system):
    with GraphDSL() as g:
        sink = g.add(Sink.ignore().map_materialized_value(lambda _: "sink"), keep=True)
        dropped = g.add(Flow.map(str).map_materialized_value(lambda _: "flow"))
        source = g.add(Source.range(3).map_materialized_value(lambda _: "source"), keep=True)
        source >> dropped >> sink
    assert g.to_runnable().run(actor_system) == ("sink", "source")
    with GraphDSL() as g:
        g.add(Source.range(3)) >> Sink.ignore()
    assert g.to_runnable().run(actor_system) is None


def test_one_blueprint_may_stand_in_a_graph_twice(actor_system):
    half = Flow.map(lambda x: x / 2)
    with GraphDSL() as g:
        g.add(Source.range(3)) >> g.add(half) >> g.add(half) >> g.add(Sink.to_list(), keep=True)
    graph = g.to_runnable()
    assert [graph.run(actor_system)[0].result(30) for _ in range(2)] == [[0, 0.25, 0.5]] * 2


@pytest.mark.expects_log("cannot complete: ")
def test_a_cycle_with_a_seed_runs_until_its_condition_ends_it(actor_system):
    with GraphDSL() as g:
        merge = g.add(Merge(2))
        split = g.add(Partition(2, lambda n: 0 if n < 100 else 1))
        Source.single(1) >> merge >> split
        split.out(0) >> Flow.map(lambda n: n * 2) >> merge
        split.out(1) >> g.add(Sink.head(), keep=True)
    assert g.to_runnable().run(actor_system)[0].result(30) == 128


def test_partial_graphs_become_sources_flows_and_sinks(actor_system):
    with GraphDSL() as g:
        fan, join = g.add(Broadcast(2)), g.add(Zip())
        fan.out(0) >> join.in_(0)
        fan.out(1) >> Flow.map(lambda x: -x) >> join.in_(1)
    pairs = g.to_flow()
    assert isinstance(pairs, Flow)
    assert Source.range(3).via(pairs).run_with(Sink.to_list(), actor_system).result(30) == [(0, 0), (1, -1), (2, -2)]

    with GraphDSL() as g:
        join = g.add(Zip())
        Source.range(3) >> join.in_(0)
        Source.from_iterable("abc") >> join.in_(1)
    assert g.to_source(join.out()).run_with(Sink.to_list(), actor_system).result(30) == [(0, "a"), (1, "b"), (2, "c")]

    with GraphDSL() as g:
        fan = g.add(Broadcast(2))
        fan >> g.add(Sink.count(), keep=True)
        fan >> g.add(Sink.fold(0, lambda a, b: a + b), keep=True)
    count, total = Source.range(5).run_with(g.to_sink(fan), actor_system)
    assert (count.result(30), total.result(30)) == (5, 10)


def test_a_component_of_any_shape_with_named_ports(actor_system):
    with GraphDSL() as g:
        join, split = g.add(Merge(2)), g.add(Partition(2, lambda n: n % 2))
        join >> split
    component = g.from_ports(
        inlets={"first": join.in_(0), "second": join.in_(1)}, outlets={"even": split.out(0), "odd": split.out(1)}
    )
    with GraphDSL() as h:
        parity = h.add(component.named("parity"))
        Source.from_iterable([1, 2]) >> parity.in_("first")
        Source.from_iterable([3, 4]) >> parity.in_("second")
        parity.out("odd") >> h.add(Sink.to_list(), keep=True)
        parity.out("even") >> h.add(Sink.to_list(), keep=True)
    odd, even = h.to_runnable().run(actor_system)
    assert (sorted(odd.result(30)), sorted(even.result(30))) == ([1, 3], [2, 4])
    with pytest.raises(BuildError, match=r"parity has no outlet 'prime'; it has 2 outlets: even, odd"):
        parity.out("prime")


def test_by_default_a_component_has_all_open_ports(actor_system):
    with GraphDSL() as g:
        g.add(Merge(2)) >> g.add(Balance(2))
    with GraphDSL() as h:
        part = h.add(g.from_ports())
        assert (len(part.inlets), len(part.outlets)) == (2, 2)
        Source.range(2) >> part
        Source.range(2) >> part
        part >> Sink.ignore()
        part >> Sink.ignore()
    assert isinstance(h.to_runnable(), RunnableGraph)


def test_the_materialized_value_can_be_an_element_of_the_graph(actor_system):
    with GraphDSL() as g:
        Source.range(10) >> g.add(Sink.fold(0, lambda a, b: a + b), keep=True)
        total = Flow.flat_map_concat(lambda values: Source.future(values[0]))
        g.materialized_value >> total >> g.add(Sink.head(), keep=True)
    assert g.to_runnable().run(actor_system)[1].result(30) == 45

    with GraphDSL() as g:
        g.add(Source.range(10).map_materialized_value(lambda _: 42), keep=True) >> Sink.ignore()
        answer = g.materialized_value
    assert g.to_source(answer).run_with(Sink.to_list(), actor_system).result(30) == [(42,)]


def test_bidi_flows_stack_join_and_turn_round(actor_system):
    codec = BidiFlow.from_functions(str, int)
    frame = BidiFlow.from_functions(lambda text: f"<{text}>", lambda text: text.strip("<>"))
    seen = []
    wire = Flow.map(lambda framed: seen.append(framed) or framed)
    echo = codec.atop(frame).join(wire)
    assert Source.range(3).via(echo).run_with(Sink.to_list(), actor_system).result(30) == [0, 1, 2]
    assert seen == ["<0>", "<1>", "<2>"]
    turned = frame.reversed().atop(codec.reversed())
    assert Source.single("<5>").via(turned.join(Flow.map(lambda n: n + 1))).run_with(
        Sink.head(), actor_system
    ).result(30) == "<6>"  # fmt: skip


def test_a_bidi_flow_from_a_graph(actor_system):
    with GraphDSL() as g:
        there, back = g.add(Flow.map(lambda x: x + 1)), g.add(Flow.map(lambda x: x * 2))
    bidi = g.to_bidi(there.in_(), there.out(), back.in_(), back.out())
    assert Source.range(3).via(bidi.join(Flow.identity())).run_with(Sink.to_list(), actor_system).result(30) == [
        2,
        4,
        6,
    ]


# ── mistakes ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_unconnected_port_is_named():
    with GraphDSL() as g:
        fan = g.add(Broadcast(2))
        Source.range(3) >> fan
        fan.out(0) >> Sink.ignore()
    with pytest.raises(BuildError, match=r"port broadcast\.out\(1\) is not connected; wire with >>"):
        g.to_runnable()
    with pytest.raises(BuildError, match="the graph is empty"):
        GraphDSL().to_runnable()


def test_several_unconnected_ports_and_parts_of_one_name_are_told_apart():
    with GraphDSL() as g:
        g.add(Merge(2))
        g.add(Merge(2)) >> Sink.ignore()
    with pytest.raises(
        BuildError,
        match=r"ports merge\.in_\(0\), merge\.in_\(1\), merge#2\.in_\(0\), merge#2\.in_\(1\), merge\.out are",
    ):
        g.to_runnable()


def test_a_port_is_connected_once_and_a_refused_wire_changes_nothing():
    with GraphDSL() as g:
        fan, join = g.add(Broadcast(2)), g.add(Merge(2))
        Source.range(3) >> fan
        fan.out(0) >> join.in_(0)
        with pytest.raises(BuildError, match=r"port broadcast\.out\(0\) is connected already, to merge\.in_\(0\)"):
            fan.out(0) >> Sink.ignore()
        with pytest.raises(BuildError, match=r"port merge\.in_\(0\) is connected already, to broadcast\.out\(0\)"):
            Source.range(3) >> join.in_(0)
        fan >> join
        with pytest.raises(
            BuildError, match=r"every outlet of broadcast is connected already: broadcast\.out\(0\), to"
        ):
            fan >> Sink.ignore()
        join >> Sink.ignore()
    g.to_runnable()


def test_a_part_of_another_graph_is_refused():
    with GraphDSL() as g, GraphDSL() as other:
        mine, foreign = g.add(Merge(2)), other.add(Broadcast(2))
        with pytest.raises(BuildError, match=r"broadcast belongs to another GraphDSL|merge belongs to another"):
            foreign >> mine
        with pytest.raises(
            BuildError, match=r"broadcast\.out\(1\) belongs to another GraphDSL|merge\.in_\(0\) belongs"
        ):
            foreign.out(1) >> mine.in_(0)
        with pytest.raises(BuildError, match="is in a graph already"):
            g.add(foreign)
        with pytest.raises(BuildError, match="belongs to another GraphDSL"):
            g.to_source(foreign.out(0))


@pytest.mark.parametrize(
    ("wire", "message"),
    [
        (lambda g: g.add(Source.range(3)) >> 5, "expects a port or a part of a graph beside it, got int 5"),
        (lambda g: "text" >> g.add(Merge(2)), "expects a port or a part of a graph beside it, got str 'text'"),
        (lambda g: g.add(Source.range(3)) >> Source.range(3), "range has no inlet"),
        (lambda g: Sink.ignore() >> g.add(Merge(2)), "ignore has no outlet"),
        (lambda g: g.add(Sink.ignore()) >> g.add(Merge(2)), "ignore has no outlet"),
        (lambda g: g.add(Merge(2)).in_(0) >> Sink.ignore(), r"merge\.in_\(0\) is an inlet; >> goes from an outlet to an inlet"),
        (lambda g: Source.range(3) >> g.add(Broadcast(2)).out(0), r"broadcast\.out\(0\) is an outlet; >> goes"),
        (lambda g: g.add(Merge(2)).in_(2), "merge has no inlet 2; it has 2 inlets"),
        (lambda g: g.add(Merge(2)).out(-1), "merge has no outlet -1; it has 1 outlet: out"),
        (lambda g: g.add(5), "add expects a part of a graph, got int 5"),
        (lambda g: g.add(Merge), "a class was given: make an instance"),
        (lambda g: Source.range(3) >> Sink.ignore(), "would not become a part of the graph"),
        (lambda g: (g.add(Merge(2)), g.to_source()), r"ports merge\.in_\(0\), merge\.in_\(1\) are not connected"),
        (lambda g: (g.add(Merge(2)), g.to_sink()), "must have one open inlet, or say which; open are: merge"),
        (lambda g: (g.add(Merge(2)), g.to_flow("in")), "expected an inlet of this graph, got str 'in'"),
        (lambda g: g.from_ports([p := g.add(Merge(2)).in_(0), p]), r"port merge\.in_\(0\) is given twice"),
    ],
)  # fmt: skip
def test_a_mistake_is_an_error_at_its_line(wire, message):
    with GraphDSL() as g:
        with pytest.raises(BuildError, match=message):
            wire(g)


def test_outside_a_graph_source_and_sink_may_be_joined_again():
    with GraphDSL():
        pass
    assert isinstance(Source.range(3) >> Sink.ignore(), RunnableGraph)
    with pytest.raises(KeyError), GraphDSL():
        raise KeyError
    assert isinstance(Source.range(3) >> Sink.ignore(), RunnableGraph)


def test_closed_graphs_can_be_added(actor_system):
    inner = Source.range(3).to_mat(Sink.to_list(), Keep.right)
    with GraphDSL() as g:
        g.add(inner, keep=True)
        probe = g.add(TestSink.probe(), keep=True)
        Source.single("x") >> probe
    values, sink = g.to_runnable().run(actor_system)
    assert values.result(30) == [0, 1, 2]
    sink.request(1).expect_next("x")
