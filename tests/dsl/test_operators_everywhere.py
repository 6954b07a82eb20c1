"""Operators are written once: on a source, on a flow, and on the class Flow they are the same."""

from __future__ import annotations

import inspect
import io
import pydoc

import pytest

from streamactors import Flow, Keep, NotUsed, Sink, Source
from streamactors.dsl.operators.all_operators import Operators
from streamactors.dsl.operators.base import Ops

NAMES = sorted(
    name
    for mixin in Operators.__mro__
    if issubclass(mixin, Ops) and mixin is not Ops
    for name, value in vars(mixin).items()
    if not name.startswith("_") and callable(value)
)


def test_a_flow_built_on_the_class_does_what_the_chain_on_a_source_does(actor_system):
    flow = Flow.map(lambda x: x + 1).filter(lambda x: x % 2).map(str)
    on_source = Source.range(10).map(lambda x: x + 1).filter(lambda x: x % 2).map(str)
    assert Source.range(10).via(flow).run_with(Sink.to_list(), actor_system).result(30) == ["1", "3", "5", "7", "9"]
    assert on_source.run_with(Sink.to_list(), actor_system).result(30) == ["1", "3", "5", "7", "9"]


def test_the_class_and_the_instances_share_one_definition():
    assert Flow.map.__func__ is Flow.identity().map.__func__ is Source.empty().map.__func__ is Source.map


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_is_on_source_flow_and_the_class_flow(name):
    assert callable(getattr(Source.empty(), name))
    assert callable(getattr(Flow.identity(), name))
    on_class = getattr(Flow, name)
    assert inspect.signature(on_class) == inspect.signature(getattr(Flow.identity(), name))
    assert "self" not in inspect.signature(on_class).parameters


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_says_what_it_does(name):
    assert inspect.getdoc(getattr(Source, name)), f"{name} has no docstring"


def test_help_shows_the_four_whens():
    shown = io.StringIO()
    pydoc.Helper(output=shown).help(Flow.map)
    for when in ("Emits when", "Backpressures when", "Completes when", "Cancels when"):
        assert when in shown.getvalue()
    assert "map(fn" in pydoc.plain(pydoc.render_doc(Flow))


def test_blueprints_are_immutable_and_every_run_is_fresh(actor_system):
    base = Source.range(3)
    doubled = base.map(lambda x: x * 2)
    graph = doubled.to_mat(Sink.to_list(), Keep.right)
    assert [graph.run(actor_system).result(30) for _ in range(3)] == [[0, 2, 4]] * 3
    assert base.run_with(Sink.to_list(), actor_system).result(30) == [0, 1, 2]


def test_identity_is_left_out_and_materializes_nothing(actor_system):
    assert repr(Source.range(3).via(Flow.identity()).map(str)) == "Source(range -> map)"
    flow = Flow.identity().via_mat(Flow.map(str).map_materialized_value(lambda _: 7), Keep.both)
    value, result = Source.range(2).via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert isinstance(value[0], NotUsed)
    assert value[1] == 7
    assert result.result(30) == ["0", "1"]


def test_keep_chooses_the_materialized_value(actor_system):
    left = Source.range(3).map_materialized_value(lambda _: "source")
    right = Sink.ignore().map_materialized_value(lambda _: "sink")
    assert left.to(right).run(actor_system) == "source"
    assert left.to_mat(right, Keep.left).run(actor_system) == "source"
    assert left.to_mat(right, Keep.right).run(actor_system) == "sink"
    assert left.to_mat(right, Keep.both).run(actor_system) == ("source", "sink")
    assert isinstance(left.to_mat(right, Keep.none).run(actor_system), NotUsed)
    assert left.to_mat(right, lambda a, b: f"{a}+{b}").run(actor_system) == "source+sink"
    assert left.to(right).map_materialized_value(str.upper).run(actor_system) == "SOURCE"
    assert left.run_with(right, actor_system) == "sink"
    flow = Flow.map(str).map_materialized_value(lambda _: "flow")
    assert left.via(flow).to(right).run(actor_system) == "source"
    assert left.via_mat(flow, Keep.both).to(right).run(actor_system) == ("source", "flow")
    assert Flow.map(str).run_with(left, right, actor_system) == ("source", "sink")
    assert flow.to_mat(right, Keep.both).named("end").module is not None


def test_shift_composes_sources_flows_and_sinks(actor_system):
    pipe = Flow.map(lambda x: x + 1) >> Flow.map(str)
    graph = (Source.range(3) >> pipe).to_mat(Sink.to_list(), Keep.right)
    assert graph.run(actor_system).result(30) == ["1", "2", "3"]
    sink = pipe >> Sink.ignore()
    assert isinstance(sink, Sink)
    assert (Source.range(3) >> sink).run(actor_system) is not None


def test_a_run_without_a_system_uses_the_default_one():
    assert Source.range(3).run_with(Sink.to_list()).result(30) == [0, 1, 2]
    assert Source.range(3).run().result(30) is None


def test_from_sink_and_source_has_two_independent_ends(actor_system):
    flow = Flow.from_sink_and_source(Sink.ignore(), Source.from_iterable("ab"))
    assert Source.range(1000).via(flow).run_with(Sink.to_list(), actor_system).result(30) == ["a", "b"]


def test_named_names_the_last_operator_and_errors_say_so(actor_system):
    source = Source.range(3).map(lambda x: x - 1).named("shift").map(lambda x: 1 // x).named("divide")
    assert repr(source) == "Source(range -> shift -> divide)"
    error = source.run_with(Sink.ignore(), actor_system).exception(30)
    assert "in stage divide, element 0" in error.__notes__[0]
    assert repr(source.named("second")) == "Source(range -> shift -> second)"
    assert repr(Sink.ignore().named("end")) == "Sink(end)"
    kept = Source.range(3).map_materialized_value(str).with_attributes(max_chunk=1).named("numbers")
    assert repr(kept) == "Source(numbers)"
    assert kept.to(Sink.ignore()).run(actor_system) == "NotUsed"
