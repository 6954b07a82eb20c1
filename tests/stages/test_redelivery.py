"""RestartFlow and RestartSink with redeliver=True: nothing that was taken in is lost, and the materialized value stays the same."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Flow, Keep, RestartFlow, RestartSettings, RestartSink, RestartSource, Sink, Source
from streamactors.engine.island.run import runs_of
from streamactors.errors import BuildError
from streamactors.stages.control.redelivery import RestartedValue
from tests.actors.eventually import eventually
from tests.stages.restarting import QUICK, virtual_time  # noqa: F401

pytestmark = pytest.mark.expects_log("restart_flow: failed", "restart_sink: failed")


NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # a stream that hangs would hang in each attempt
AT_ONCE = RestartSettings("0.001ms", "0.001ms", random_factor=0)


class FailsOnceAt:
    """Makes flows or sinks that fail, once each, at some elements."""

    def __init__(self, elements):
        self.left = set(elements)
        self.made = 0
        self.seen = []

    def check(self, x):
        if x in self.left:
            self.left.discard(x)
            raise ValueError(f"at {x}")
        self.seen.append(x)
        return x

    def flow(self):
        self.made += 1
        return Flow.map(self.check)

    def held(self):
        self.made += 1
        return Flow.map_async(4, lambda x: x).async_boundary().map(self.check)

    def sink(self):
        self.made += 1
        return Sink.foreach(self.check)


@pytest.fixture
def system():
    with ActorSystem("redelivery") as system:
        yield system


@pytest.mark.parametrize("kind", ["flow", "held"])
def test_a_flow_gets_again_what_the_last_one_had_not_acknowledged(system, kind):
    fails = FailsOnceAt({0, 500, 501, 1_999})
    done = []
    value, got = (
        Source.range(2_000)
        .with_replay(on_done=done.append)
        .via_mat(RestartFlow.on_failures_with_backoff(AT_ONCE, getattr(fails, kind), redeliver=True), Keep.right)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    got = got.result(30)
    assert fails.made == 5
    assert sorted(set(got)) == list(range(2_000))
    first = [x for i, x in enumerate(got) if x not in set(got[:i])] if len(got) < 5_000 else sorted(set(got))
    assert first == list(range(2_000)), "each element's first result is in order"
    assert done == sorted(done)
    assert done[-1] == 2_000
    assert value.result(30) is None
    assert value.restarts == 4


def test_a_sink_gets_again_what_the_last_one_had_not_done_and_only_then_it_counts(system):
    fails = FailsOnceAt({0, 700, 1_999})
    wrong = []

    def on_done(position):
        if set(range(position)) - set(fails.seen):
            wrong.append(position)

    sink = RestartSink.on_failures_with_backoff(AT_ONCE, fails.sink, redeliver=True)
    value = Source.range(2_000).with_replay(on_done=on_done).run_with(sink, system)
    assert isinstance(value, RestartedValue)
    value.result(30)
    assert fails.made == 4
    assert set(fails.seen) == set(range(2_000))
    assert not wrong


def test_the_value_of_a_sink_is_the_result_of_its_last_instance(system):
    fails = FailsOnceAt({3, 99})

    def fold():
        return Flow.map(fails.check).to_mat(Sink.fold(0, lambda a, b: a + b), Keep.right)

    value = Source.range(100).run_with(RestartSink.on_failures_with_backoff(AT_ONCE, fold, redeliver=True), system)
    assert value.result(30) == sum(range(100))


def test_a_sink_across_an_async_boundary_is_waited_for(system):
    fails = FailsOnceAt({5, 50})

    def sink():
        return Flow.identity().async_boundary(4).to_mat(Sink.foreach(fails.check), Keep.right)

    Source.range(100).run_with(RestartSink.on_failures_with_backoff(AT_ONCE, sink, redeliver=True), system).result(30)
    assert set(fails.seen) == set(range(100))


def test_when_the_restarts_are_used_up_value_and_stream_fail(system):
    settings = RestartSettings("0.001ms", "0.001ms", random_factor=0, max_restarts=2, max_restarts_within="1h")

    def always():
        return Flow.map(lambda x: 1 // (x - 5))

    value, done = (
        Source.range(10)
        .via_mat(RestartFlow.on_failures_with_backoff(settings, always, redeliver=True), Keep.right)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert isinstance(done.exception(30), ZeroDivisionError)
    assert isinstance(value.exception(30), ZeroDivisionError)
    sink = RestartSink.on_failures_with_backoff(settings, lambda: Sink.foreach(lambda x: 1 // (x - 5)), redeliver=True)
    assert isinstance(Source.range(10).run_with(sink, system).exception(30), ZeroDivisionError)


def test_the_value_shows_the_running_instance(actor_system, clock):
    value, probe = (
        Source.maybe()
        .via_mat(RestartFlow.with_backoff(QUICK, lambda: Flow.identity(), redeliver=True), Keep.right)
        .to_mat(Sink.ignore(), Keep.both)
        .run(actor_system)
    )
    clock.settle()
    assert value.restarts == 0
    assert not value.done()
    assert not probe.done()


def test_a_stage_that_lets_no_mark_pass_is_refused_by_name(system):
    opaque = RestartFlow.with_backoff(AT_ONCE, lambda: Flow.rx(lambda source: source), redeliver=True)
    done = Source.range(3).via(opaque).run_with(Sink.ignore(), system)
    assert isinstance(done.exception(30), BuildError)
    assert "RestartFlow(redeliver=True) cannot follow its elements through stage" in str(done.exception(0))


def test_a_restarted_source_before_a_redelivering_flow(system):
    fails = FailsOnceAt({10, 20})
    source = RestartSource.on_failures_with_backoff(AT_ONCE, lambda: Source.range(30))
    flow = RestartFlow.on_failures_with_backoff(AT_ONCE, fails.flow, redeliver=True)
    assert set(source.via(flow).run_with(Sink.to_list(), system).result(30)) == set(range(30))


@settings(
    max_examples=60, deadline=None, phases=NO_SHRINKING, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    fails=st.sets(st.integers(0, 59), max_size=5),
    chunk=st.sampled_from([None, 1, 2, 7]),
    as_sink=st.booleans(),
    held=st.booleans(),
)
def test_failures_at_any_elements_under_any_chunking_lose_nothing(system, fails, chunk, as_sink, held):
    maker = FailsOnceAt(fails)
    done = []
    source = Source.range(60).with_replay(on_done=done.append)
    if as_sink:
        sink = RestartSink.on_failures_with_backoff(AT_ONCE, maker.sink, redeliver=True)
        graph = source.to_mat(sink, Keep.right)
    else:
        flow = RestartFlow.on_failures_with_backoff(AT_ONCE, maker.held if held else maker.flow, redeliver=True)
        graph = source.via(flow).to_mat(Sink.ignore(), Keep.right)
    (graph if chunk is None else graph.max_chunk(chunk)).run(system).result(10)
    assert not maker.left
    assert set(maker.seen) == set(range(60))
    assert done == sorted(done)
    assert done[-1] == 60


def test_what_is_materialized_can_be_read_before_the_first_instance_runs() -> None:
    value = RestartedValue()
    assert (value.current, value.restarts, value.done()) == (None, 0, False)


def test_an_instance_that_has_ended_leaves_nothing_in_the_progress_of_the_run(system) -> None:
    """Each restart left a listener and a position there for as long as the run."""
    fails = FailsOnceAt(set(range(0, 500, 10)))
    sink = RestartSink.on_failures_with_backoff(AT_ONCE, fails.sink, redeliver=True)
    done: list[int] = []
    Source.range(500).concat(Source.never()).with_replay(on_done=done.append).run_with(sink, system)
    eventually(lambda: done and done[-1] == 500, 30)
    (run,) = runs_of(system)
    assert fails.made > 10
    assert len(run.progress._listeners) < 5
    assert len(run.progress._done) < 5
