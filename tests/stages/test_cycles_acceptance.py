"""Acceptance: graphs with cycles; what keeps them live, and what stalls them with bounded memory."""

from __future__ import annotations

import pytest

from streamactors import (
    ActorSystem,
    Balance,
    Broadcast,
    Flow,
    GraphDSL,
    Merge,
    MergePreferred,
    Sink,
    Source,
    Zip,
)
from streamactors.testing import TestSink, TestSource

pytestmark = pytest.mark.expects_log("cannot complete: ")


@pytest.fixture
def system():
    with ActorSystem("junctions") as system:
        yield system


def test_a_token_parks_in_a_loop_and_is_released_by_the_next_request(system):
    with GraphDSL() as g:
        source = g.add(TestSource.probe(), keep=True)
        sink = g.add(TestSink.probe(), keep=True)
        join, fork = g.add(Merge(2)), g.add(Balance(2))
        source >> join.in_(0)
        join >> fork
        fork.out(0) >> sink
        fork.out(1) >> join.in_(1)
    probe, sink = g.to_runnable().run(system)
    sink.request(1)
    probe.send_next(1)
    probe.send_next(2)
    # a token may go round the loop before it reaches the sink; it is never lost
    first = sink.expect_next()
    sink.request(1)
    assert {first, sink.expect_next()} == {1, 2}


def test_a_spinning_loop_yields_to_everyone_else(system):
    with GraphDSL() as g:
        source = g.add(TestSource.probe(), keep=True)
        sink = g.add(TestSink.probe(), keep=True)
        join, fork = g.add(Merge(2)), g.add(Balance(2))
        source >> join.in_(0)
        join >> fork
        fork.out(0) >> sink
        fork.out(1) >> Flow.detach() >> join.in_(1)
    probe, sink = g.to_runnable().run(system)
    probe.send_next(1)  # spins: there is no demand at the sink
    assert Source.range(0, 10_000).run_with(Sink.count(), system).result(10) == 10_000
    sink.request(1)
    assert sink.expect_next() == 1
    sink.cancel()


def feedback(system, join, source, through, *, into=1):
    """What is merged goes to a probe, and through a flow back into input `into` of the merge; the source has the other."""
    with GraphDSL() as g:
        join, fork = g.add(join), g.add(Broadcast(2))
        sink = g.add(TestSink.probe(), keep=True)
        g.add(source) >> join.in_(1 - into)
        join >> fork
        fork.out(0) >> sink
        fork.out(1) >> through >> join.in_(into)
    (sink,) = g.to_runnable().run(system)
    return sink


def test_a_merge_and_broadcast_feedback_stalls_with_bounded_memory(system):
    emitted = []

    def seen(x):
        emitted.append(x)
        return x

    sink = feedback(system, Merge(2), Source.range(0, 10**9).map(seen), Flow.buffer(10, "backpressure"))
    sink.request(1_000_000)
    assert sink.receive_within("500ms"), "some elements arrive, then nothing more"
    sink.expect_no_message()
    assert len(emitted) < 10_000
    sink.cancel()


def test_a_feedback_into_merge_preferred_stays_live(system):
    sink = feedback(system, MergePreferred(1), Source.range(0, 10**9), Flow.map(lambda x: x), into=0)
    sink.request(5_000)
    sink.expect_next_n(5_000)
    sink.cancel()


def test_a_feedback_through_a_dropping_buffer_stays_live_and_consumes_the_source(system):
    sink = feedback(system, Merge(2), Source.range(0, 10**9), Flow.buffer(10, "drop_head"))
    sink.request(5_000)
    got = sink.expect_next_n(5_000)
    assert len(set(got)) > 100, "the source goes on being read"
    sink.cancel()


def zip_feedback(seed, system):
    with GraphDSL() as g:
        join, fork = g.add(Zip()), g.add(Broadcast(2))
        sink = g.add(TestSink.probe(), keep=True)
        g.add(Source.range(0, 10**9)) >> join.in_(0)
        join >> Flow.map(lambda pair: pair[0]) >> fork
        fork.out(0) >> sink
        back = Flow.prepend(Source.single(-1)) if seed else Flow.map(lambda x: x)
        fork.out(1) >> back >> join.in_(1)
    (sink,) = g.to_runnable().run(system)
    return sink


def test_a_zip_feedback_without_a_seed_emits_nothing(system):
    sink = zip_feedback(False, system)
    sink.request(10)
    sink.expect_no_message("100ms")
    sink.cancel()


def test_a_zip_feedback_with_a_seed_runs(system):
    sink = zip_feedback(True, system)
    sink.request(1_000)
    assert sink.expect_next_n(1_000) == list(range(1_000))
    sink.cancel()
