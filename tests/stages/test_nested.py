"""Parts that run inside stages: lazy and future flows and sinks, flat_map_prefix, prefix_and_tail, switch_map, RetryFlow, pre_materialize."""

from __future__ import annotations

from concurrent.futures import Future

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import (
    ActorSystem,
    Flow,
    Keep,
    Sink,
    Source,
    StreamFuture,
    VirtualClock,
)
from streamactors.errors import AbruptTermination, BuildError, StreamTimeout
from streamactors.testing import TestSink, TestSource
from tests.stages.nested_runs import LAW, probes, run


@pytest.fixture(scope="module")
def system():
    with ActorSystem("nested", clock=VirtualClock()) as system:
        yield system


def chunked(n, size):
    return Source.range(n).max_chunk(size).async_boundary(size)


def lazy(flow):
    return Flow.lazy_flow(lambda: flow)


def future(flow):
    done = Future()
    done.set_result(flow)
    return Flow.future_flow(done)


def lazy_future(flow):
    async def make():
        return flow

    return Flow.lazy_future_flow(make)


def from_materializer(flow):
    return Flow.from_materializer(lambda system, attributes: flow)


def prefix(flow):
    return Flow.flat_map_prefix(0, lambda _: flow)


LATER = [lazy, future, lazy_future, from_materializer, prefix]


@pytest.mark.parametrize("later", LATER)
@given(n=st.integers(0, 40), size=st.integers(1, 9), inside=st.sampled_from(["map", "grouped", "take", "expand"]))
@settings(max_examples=12)
def test_a_flow_that_is_known_later_gives_what_it_gives_at_once(system, later, n, size, inside):
    flow = {
        "map": Flow.map(lambda x: x + 1),
        "grouped": Flow.grouped(3),
        "take": Flow.take(5),
        "expand": Flow.map_concat(lambda x: [x, x]),
    }[inside]
    assert run(chunked(n, size).via(later(flow)), system) == run(Source.range(n).via(flow), system)


@pytest.mark.parametrize("later", LATER)
def test_a_failure_inside_upstream_or_downstream_ends_all_with_it(system, later):
    with pytest.raises(ZeroDivisionError):
        run(Source.range(3).via(later(Flow.map(lambda x: 1 // x))), system)
    with pytest.raises(ValueError, match="gone"):
        run(Source.failed(ValueError("gone")).via(later(Flow.identity())), system)
    source, sink, _ = probes(later(Flow.identity()), system)
    sink.request(1)
    source.send_next(1)
    sink.expect_next(1)
    sink.cancel(ValueError("enough"))
    assert str(source.expect_cancellation_with_cause(ValueError)) == "enough"


def test_a_lazy_flow_is_made_at_the_first_element_and_never_without_one(system):
    made = []

    def make():
        made.append(1)
        return Flow.map(str).map_materialized_value(lambda _: "value")

    source, sink, value = probes(Flow.lazy_flow(make), system)
    sink.request(5)
    source.expect_request()
    system.clock.settle()
    assert not made
    source.send_next(1)
    sink.expect_next("1")
    assert value.result(30) == "value"
    source.send_complete()
    sink.expect_complete()
    ended, never = Source.empty().via_mat(Flow.lazy_flow(make), Keep.right).to_mat(Sink.ignore(), Keep.both).run(system)
    never.result(30)
    assert made == [1]
    with pytest.raises(AbruptTermination, match="before its inner part was known"):
        ended.result(30)


@pytest.mark.parametrize("later", [lazy, prefix])
def test_a_flow_that_is_known_later_ends_the_sink_in_it_with_its_source(system, later):
    ended = []
    inside = Flow.from_sink_and_source(Sink.on_complete(ended.append), Source.single("a"))
    source = Source.single(0).concat(Source.never())
    assert run(source.via(later(inside)), system) == ["a"]
    system.clock.settle()
    assert len(ended) == 1, "the sink ends"


def test_a_future_flow_waits_for_its_future_also_when_upstream_has_completed(system):
    promise = StreamFuture()
    result = Source.range(3).via(Flow.future_flow(promise)).run_with(Sink.to_list(), system)
    system.clock.settle()
    assert not result.done()
    promise.set_result(Flow.fold(0, lambda a, x: a + x))
    assert result.result(30) == [3]
    failing = StreamFuture()
    broken = Source.range(3).via(Flow.future_flow(failing)).run_with(Sink.to_list(), system)
    failing.set_exception(ValueError("no flow"))
    with pytest.raises(ValueError, match="no flow"):
        broken.result(30)


def test_sinks_that_are_known_later(system):
    async def make():
        return Sink.to_list()

    promise = StreamFuture()
    sinks = [
        Sink.lazy_sink(Sink.to_list),
        Sink.lazy_future_sink(make),
        Sink.future_sink(promise),
        Sink.from_materializer(lambda system, attributes: Sink.to_list()),
    ]
    values = [Source.range(5).run_with(sink, system) for sink in sinks]
    system.clock.settle()
    promise.set_result(Sink.to_list())
    assert [value.result(30).result(30) for value in values] == [[0, 1, 2, 3, 4]] * 4


def test_a_sink_that_is_known_later_fails_with_its_function_or_itself(system):
    failing = Source.range(5).run_with(Sink.lazy_sink(lambda: Sink.foreach(lambda x: 1 // x)), system).result(30)
    with pytest.raises(ZeroDivisionError):
        failing.result(30)
    with pytest.raises(BuildError, match="lazy_sink expects a Sink, got int"):
        Source.range(5).run_with(Sink.lazy_sink(lambda: 3), system).result(30)
    source, value = TestSource.probe().to_mat(Sink.lazy_sink(Sink.cancelled), Keep.both).run(system)
    source.send_next(1)
    source.expect_cancellation()
    value.result(30)


def test_a_source_from_the_materializer_sees_the_system(system):
    source = Source.from_materializer(lambda system, attributes: Source.single(system))
    assert run(source, system) == [system]


def test_materialize_into_source_emits_the_result_of_the_sink(system):
    assert run(Source.range(5).materialize_into_source(Sink.count()), system) == [5]
    assert run(Flow.map(str).materialize_into_source(Source.range(3), Sink.to_list()), system) == [["0", "1", "2"]]


@given(n=st.integers(0, 30), size=st.integers(1, 9), head=st.integers(0, 8))
@LAW
def test_flat_map_prefix_and_prefix_and_tail_split_the_stream(system, n, size, head):
    elements = list(range(n))
    by_prefix = chunked(n, size).flat_map_prefix(head, lambda first: Flow.map(lambda x: (first, x)))
    assert run(by_prefix, system) == [(elements[:head], x) for x in elements[head:]]
    pair = chunked(n, size).prefix_and_tail(head)
    flat = pair.flat_map_concat(lambda pair: Source.single(pair[0]).concat(pair[1]))
    assert run(flat, system) == [elements[:head], *elements[head:]]
    ((first, rest),) = run(pair, system)
    assert first == elements[:head]
    assert run(rest, system) == elements[head:]


def test_the_rest_of_a_stream_fails_with_it_and_its_cancellation_cancels_it(system):
    source, sink, _ = probes(Flow.prefix_and_tail(1), system)
    sink.request(1)
    source.send_next(1)
    _, rest = sink.expect_next()
    sink.expect_complete()
    tail = rest.run_with(TestSink.probe(), system)
    tail.request(1)
    source.send_next(2)
    tail.expect_next(2)
    tail.cancel()
    source.expect_cancellation()
    with pytest.raises(BuildError, match="only once"):
        rest.run_with(Sink.ignore(), system)
    failing = Source.range(3).concat(Source.failed(ValueError("gone"))).prefix_and_tail(1)
    with pytest.raises(ValueError, match="gone"):
        run(failing.flat_map_concat(lambda pair: pair[1]), system)


def test_a_rest_that_is_not_started_in_time_cancels_the_stream(system):
    source, sink, _ = probes(Flow.prefix_and_tail(1), system)
    sink.request(1)
    source.send_next(1)
    _, rest = sink.expect_next()
    system.clock.advance("5s")
    source.expect_cancellation()
    with pytest.raises(StreamTimeout, match="within 5 s"):
        rest.run_with(Sink.ignore(), system)


def test_switch_map_cancels_the_source_of_the_element_before(system):
    inner = {}

    def make(name):
        return TestSource.probe().map_materialized_value(lambda probe: inner.setdefault(name, probe))

    source, sink, _ = probes(Flow.switch_map(make), system)
    sink.request(10)
    source.send_next("a")
    system.clock.settle()
    inner["a"].send_next(1)
    sink.expect_next(1)
    source.send_next("b")
    inner["a"].expect_cancellation()
    inner["b"].send_next(2)
    sink.expect_next(2)
    source.send_complete()
    inner["b"].send_next(3)
    sink.expect_next(3)
    inner["b"].send_complete()
    sink.expect_complete()


def test_switch_map_ends_with_failures_and_cancels_inside(system):
    inner = []
    make = TestSource.probe().map_materialized_value(inner.append)
    source, sink, _ = probes(Flow.switch_map(lambda _: make), system)
    sink.request(1)
    source.send_next(1)
    system.clock.settle()
    sink.cancel()
    inner[0].expect_cancellation()
    source.expect_cancellation()
    with pytest.raises(ValueError, match="inner"):
        run(Source.single(1).switch_map(lambda _: Source.failed(ValueError("inner"))), system)
    with pytest.raises(ZeroDivisionError) as caught:
        run(Source.single(0).switch_map(lambda x: 1 // x), system)
    assert any("switch_map, element 0" in note for note in caught.value.__notes__)
    assert run(Source.single(1).switch_map(lambda _: Source.range(9)), system) == list(range(9))


def test_a_sink_and_a_flow_run_before_what_feeds_them(system):
    result, sink = Sink.to_list().pre_materialize(system)
    Source.range(4).to(sink).run(system)
    assert result.result(30) == [0, 1, 2, 3]
    with pytest.raises(BuildError, match="only once"):
        Source.range(4).to(sink).run(system)
    value, flow = Flow.map(str).map_materialized_value(lambda _: 7).pre_materialize(system)
    assert value == 7
    assert run(Source.range(3).via(flow), system) == ["0", "1", "2"]


def test_ends_pass_a_pre_materialized_flow_both_ways(system):
    _, flow = Flow.identity().pre_materialize(system)
    source, sink, _ = probes(flow, system)
    sink.request(1)
    source.send_next(1)
    sink.expect_next(1)
    sink.cancel()
    source.expect_cancellation()
    _, flow = Flow.map(lambda x: 1 // x).pre_materialize(system)
    with pytest.raises(ZeroDivisionError):
        run(Source.range(3).via(flow), system)
    _, ended = Sink.cancelled().pre_materialize(system)
    source = TestSource.probe().to(ended).run(system)
    source.expect_cancellation()


def test_a_sink_materializes_a_source_of_its_elements(system):
    source = Source.range(5).run_with(Sink.source(), system)
    assert run(source, system) == [0, 1, 2, 3, 4]


def test_coupled_ends_end_together_and_uncoupled_ones_do_not(system):
    for end in ("upstream", "downstream", "sink", "source"):
        flow = Flow.from_sink_and_source_coupled(TestSink.probe(), TestSource.probe(), mat=Keep.both)
        source, sink, (inner_sink, inner_source) = probes(flow, system)
        sink.request(1)
        inner_sink.request(1)
        {
            "upstream": source.send_complete,
            "downstream": sink.cancel,
            "sink": inner_sink.cancel,
            "source": inner_source.send_complete,
        }[end]()
        if end != "upstream":
            source.expect_cancellation()
        if end != "downstream":
            sink.expect_complete()
        if end != "sink":
            inner_sink.expect_complete()
        if end != "source":
            inner_source.expect_cancellation()
    loose = Flow.from_sink_and_source(Sink.cancelled(), Source.range(3))
    assert run(Source.range(9).via(loose), system) == [0, 1, 2]


def test_contramap_and_dimap_change_what_goes_in_and_comes_out(system):
    assert run(Source.range(3).via(Flow.map(lambda x: x * 2).contramap(lambda x: x + 1)), system) == [2, 4, 6]
    flow = Flow.map(lambda x: x * 2).dimap(int, str)
    assert run(Source.from_iterable("123").via(flow), system) == ["2", "4", "6"]
    assert Source.range(3).run_with(Sink.to_list().contramap(str), system).result(30) == ["0", "1", "2"]


def test_optional_via_leaves_none_beside_the_flow(system):
    found = run(Source.from_iterable([1, None, 2, None]).optional_via(Flow.map(lambda x: x * 10)), system)
    assert sorted(x for x in found if x is not None) == [10, 20]
    assert found.count(None) == 2


def test_a_monitor_knows_the_last_element_and_the_end(system):
    source, sink, monitor = probes(Flow.monitor(), system)
    assert repr(monitor.state) == "Initialized()"
    sink.request(2)
    source.send_next(1)
    source.send_next(2)
    sink.expect_next_n([1, 2])
    assert repr(monitor.state) == "Received(element=2)"
    assert monitor.elements == 2
    source.send_complete()
    sink.expect_complete()
    assert repr(monitor.state) == "Finished()"
    source, sink, monitor = probes(Flow.monitor(), system)
    sink.request(1)
    source.send_error(ValueError("gone"))
    sink.expect_error()
    assert repr(monitor.state) == "Failed(error=ValueError('gone'))"


@pytest.mark.slow
@pytest.mark.parametrize("later", [*LATER, lambda flow: Flow.switch_map(lambda x: Source.single(x).via(flow))])
def test_ten_thousand_runs_leave_nothing_behind(later):
    from streamactors.engine.island.run import runs_of

    with ActorSystem("passing") as system:
        graph = Source.range(2).via(later(Flow.map(str))).to_mat(Sink.count(), Keep.right)
        for _ in range(10_000):
            graph.run(system).result(30)
        system.dispatcher
        assert len(runs_of(system)) <= 1
