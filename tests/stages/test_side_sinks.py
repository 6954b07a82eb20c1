"""also_to and divert_to end as their side sinks do; where chunks are cut never changes how a graph with several ends ends."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Balance, Broadcast, Flow, GraphDSL, Keep, Sink, Source, Unzip
from streamactors import Partition as PartitionStage
from streamactors.clock import VirtualClock
from streamactors.testing import TestSink, TestSource


class Boom(Exception):
    pass


@pytest.fixture(scope="module")
def system():
    with ActorSystem("side-sinks") as system:
        yield system


def fails_at(k, value=lambda x: x):
    def fn(element):
        if value(element) == k:
            raise Boom(k)
        return element

    return fn


async def later(fn, element):
    return fn(element)


SIDES = {
    "map": lambda k: Flow.map(fails_at(k)).to(Sink.ignore()),
    "deep": lambda k: Flow.map(str).detach().map(int).detach().map(fails_at(k)).to(Sink.ignore()),
    "boundary": lambda k: Flow.map(str).async_boundary().map(int).map(fails_at(k)).to(Sink.ignore()),
    "async": lambda k: Flow.map_async(2, lambda x: later(fails_at(k), x)).to(Sink.ignore()),
    "sink": lambda k: Sink.foreach(fails_at(k)),
    "throttled": lambda k: Flow.throttle(1_000, "1s").map(fails_at(k)).to(Sink.ignore()),
}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("k", [1, 3, 4])
@pytest.mark.parametrize("chunk", [1, 2, 100])
def test_also_to_fails_with_its_side_sink_wherever_the_element_stands(side, k, chunk, system):
    stream = Source.range(1, 5).max_chunk(chunk).also_to(SIDES[side](k))
    with pytest.raises(Boom):
        stream.run_with(Sink.to_list(), system).result(10)
    with pytest.raises(Boom):
        stream.async_boundary().run_with(Sink.to_list(), system).result(10)


@pytest.mark.parametrize("side", SIDES)
def test_divert_to_fails_with_its_side_sink_wherever_the_element_stands(side, system):
    stream = Source.range(1, 5).divert_to(SIDES[side](4), when=lambda x: x % 2 == 0)
    with pytest.raises(Boom):
        stream.run_with(Sink.to_list(), system).result(10)


def test_also_to_with_context_fails_with_its_side_sink(system):
    stream = (
        Source.range(1, 5)
        .with_context(lambda x: x)
        .also_to(Flow.map(lambda pair: pair[0]).map(fails_at(4)).to(Sink.ignore()))
        .as_source()
    )
    with pytest.raises(Boom):
        stream.run_with(Sink.to_list(), system).result(10)


def test_also_to_completes_when_its_side_sink_has_ended(system):
    source, side, sink = (
        TestSource.probe()
        .also_to(Flow.buffer(10, "backpressure").to_mat(TestSink.probe(), Keep.right), mat=Keep.both)
        .to_mat(TestSink.probe(), lambda both, sink: (*both, sink))
        .run(system)
    )
    sink.request(5)
    source.send_next(1)
    source.send_complete()
    sink.expect_next(1)
    sink.expect_no_message("50ms")
    side.request(1)
    side.expect_next(1)
    side.expect_complete()
    sink.expect_complete()


def test_a_side_sink_that_recovers_does_not_fail_the_stream(system):
    side = Flow.map(fails_at(4)).recover(lambda error: 0).to(Sink.ignore())
    assert Source.range(1, 5).also_to(side).run_with(Sink.to_list(), system).result(10) == [1, 2, 3, 4]


FORKS = {
    "broadcast": lambda: Broadcast(2, eager_cancel=True),
    "balance": lambda: Balance(2, eager_cancel=True),
    "partition": lambda: PartitionStage(2, lambda pair: pair[0] % 2, eager_cancel=True),
}


@pytest.fixture(scope="module")
def system_without_time():
    # A fork in a busy island waits at most 50 ms for a failure on its way up. A machine under load once stood still for so long,
    # and the fork completed its other output. Here no time passes, so only the idle island lets the fork complete.
    with ActorSystem("forks", clock=VirtualClock()) as system:
        yield system


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    fork=st.sampled_from(sorted(FORKS)),
    n=st.integers(1, 12),
    k=st.integers(0, 11),
    chunk=st.integers(1, 13),
    depth=st.integers(0, 4),
)
def test_a_fork_that_cancels_eagerly_fails_every_output_when_one_fails(fork, n, k, chunk, depth, system_without_time):
    path = Flow.map(lambda x: x)
    for _ in range(depth):
        path = path.detach().map(lambda x: x)
    with GraphDSL() as g:
        junction = g.add(FORKS[fork]())
        sinks = [g.add(Sink.to_list(), keep=True) for _ in range(2)]
        g.add(Source.range(n).max_chunk(chunk).map(lambda i: (i, i))) >> junction
        for i, sink in enumerate(sinks):
            junction.out(i) >> path.map(fails_at(k, lambda pair: pair[0])) >> sink
    outcomes = [type(future.exception(10)) for future in g.to_runnable().run(system_without_time)]
    assert outcomes == [Boom if k < n else type(None)] * 2


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(n=st.integers(1, 12), k=st.integers(0, 11), chunk=st.integers(1, 13))
def test_a_fork_that_does_not_cancel_eagerly_lets_the_other_output_finish(n, k, chunk, system):
    for fork in (Broadcast(2), Unzip()):
        with GraphDSL() as g:
            junction = g.add(fork)
            failing, sound = g.add(Sink.to_list(), keep=True), g.add(Sink.to_list(), keep=True)
            g.add(Source.range(n).max_chunk(chunk).map(lambda i: (i, i))) >> junction
            number = (lambda pair: pair[0]) if isinstance(fork, Broadcast) else (lambda x: x)
            junction.out(0) >> Flow.map(fails_at(k, number)) >> failing
            junction.out(1) >> sound
        first, second = g.to_runnable().run(system)
        assert type(first.exception(10)) is (Boom if k < n else type(None))
        assert len(second.result(10)) == n
