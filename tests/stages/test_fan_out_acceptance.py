"""What junctions with several outputs promise, scenario by scenario."""

from __future__ import annotations

import itertools
import threading

import pytest

from streamactors import (
    ActorSystem,
    Balance,
    Broadcast,
    Flow,
    GraphDSL,
    Keep,
    Partition,
    Sink,
    Source,
)
from streamactors.errors import BuildError
from streamactors.testing import TestSink, TestSource


class Boom(Exception):
    pass


@pytest.fixture
def system():
    with ActorSystem("junctions") as system:
        yield system


def fan_out(junction, system, outlets=2, sources=1):
    """A probe before a junction and one behind each of its outlets."""
    with GraphDSL() as g:
        source = g.add(TestSource.probe(), keep=True)
        fork = g.add(junction)
        sinks = [g.add(TestSink.probe(), keep=True) for _ in range(outlets)]
        source >> fork
        for i, sink in enumerate(sinks):
            fork.out(i) >> sink
    return g.to_runnable().run(system)


# ── Broadcast ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_broadcast_does_not_pull_while_one_output_has_no_demand(system):
    source, first, second = fan_out(Broadcast(2), system)
    first.request(5)
    first.expect_no_message("50ms")
    assert source.pending == 0
    second.request(2)
    source.expect_request()
    source.send_next(1)
    first.expect_next(1)
    second.expect_next(1)


def test_broadcast_goes_on_when_one_output_cancels(system):
    source, first, second = fan_out(Broadcast(2), system)
    first.request(3)
    second.cancel()
    source.send_next(1)
    first.expect_next(1)
    source.send_next(2)
    first.expect_next(2)


def test_broadcast_cancels_upstream_when_all_outputs_have_cancelled(system):
    source, first, second = fan_out(Broadcast(2), system)
    first.cancel()
    second.cancel()
    source.expect_cancellation()


def test_broadcast_with_eager_cancel_ends_with_the_first(system):
    source, first, second = fan_out(Broadcast(2, eager_cancel=True), system)
    second.request(1)
    first.cancel()
    source.expect_cancellation()
    second.expect_complete()


# ── Balance ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_balance_gives_each_element_to_an_output_that_asked(system):
    source, first, second = fan_out(Balance(2), system)
    first.request(1)
    source.send_next(1)
    first.expect_next(1)
    second.request(2)
    source.send_next(2)
    source.send_next(3)
    second.expect_next(2)
    second.expect_next(3)


def test_balance_that_waits_for_all_moves_nothing_until_both_have_asked(system):
    source, first, second = fan_out(Balance(2, wait_for_all_downstreams=True), system)
    first.request(1)
    first.expect_no_message("50ms")
    assert source.pending == 0
    second.request(1)
    source.send_next(1)
    source.send_next(2)
    assert {first.expect_next(), second.expect_next()} == {1, 2}


def test_balance_uses_both_of_two_equally_fast_outputs(system):
    with GraphDSL() as g:
        source, fork = g.add(Source.range(0, 10_000)), g.add(Balance(2))
        first, second = g.add(Sink.count(), keep=True), g.add(Sink.count(), keep=True)
        source >> fork
        fork.out(0) >> first
        fork.out(1) >> second
    a, b = (future.result(10) for future in g.to_runnable().run(system))
    assert a + b == 10_000
    assert min(a, b) > 2_000


@pytest.mark.parametrize("chunk", [1, 7, 1_000])
@pytest.mark.parametrize("takers", [(200,), (3, 10, 40)])
def test_what_an_output_of_balance_leaves_goes_to_the_others(chunk, takers, system):
    def until(n):
        seen = itertools.count(1)
        return lambda _: next(seen) < n

    with GraphDSL() as g:
        source, fork = g.add(Source.range(1_000).max_chunk(chunk)), g.add(Balance(1 + len(takers)))
        ends = [Flow.take_while(until(n), inclusive=True).to_mat(Sink.to_list(), Keep.right) for n in takers]
        ends = [g.add(end, keep=True) for end in (*ends, Sink.to_list())]
        source >> fork
        for i, end in enumerate(ends):
            fork.out(i) >> end
    *took, others = [future.result(10) for future in g.to_runnable().run(system)]
    assert chunk == 1 or [len(each) for each in took] == list(takers)  # else the quick output may get all
    assert sorted(sum(took, others)) == list(range(1_000))


def test_balance_completes_when_a_slow_output_has_taken_or_left_its_elements(system):
    with GraphDSL() as g:
        source, fork = g.add(Source.range(10)), g.add(Balance(2))
        slow = g.add(Flow.throttle(1, "1s").to_mat(TestSink.probe(), Keep.right), keep=True)
        quick = g.add(TestSink.probe(), keep=True)
        source >> fork
        fork.out(0) >> slow
        fork.out(1) >> quick
    slow, quick = g.to_runnable().run(system)
    slow.request(10)
    quick.request(20)
    first = slow.expect_next()
    slow.cancel()
    assert sorted([first, *quick.to_strict()]) == list(range(10))


# ── Partition ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_partition_fails_on_an_index_that_is_not_an_output(system):
    source, first, second = fan_out(Partition(2, lambda x: x), system)
    first.request(5)
    second.request(5)
    source.send_next(0)
    first.expect_next(0)
    source.send_next(7)
    error = first.expect_error()
    assert isinstance(error, BuildError)
    assert "from 0 to 1, got 7" in str(error)
    source.expect_cancellation()


def test_an_output_without_demand_blocks_the_others(system):
    source, first, second = fan_out(Partition(2, lambda x: x % 2), system)
    first.request(5)
    source.send_next(1)
    source.send_next(2)
    first.expect_no_message("50ms")
    second.request(1)
    second.expect_next(1)
    first.expect_next(2)


# ── also_to, divert_to, wire_tap ──────────────────────────────────────────────────────────────────────────────────────


def test_a_side_sink_of_also_to_that_cancels_cancels_the_stream(system):
    source, side, sink = (
        TestSource.probe()
        .also_to(TestSink.probe(), mat=Keep.both)
        .to_mat(TestSink.probe(), lambda both, sink: (*both, sink))
        .run(system)
    )
    sink.request(1)
    side.cancel()
    source.expect_cancellation()
    sink.expect_complete()


@pytest.mark.expects_log("a stream has failed and nobody has read its result")
def test_a_wire_tap_that_is_slow_or_fails_leaves_the_stream_alone(system):
    blocked = threading.Event()

    def slow(_):
        blocked.wait(10)
        raise Boom

    tapped = (
        Source.range(0, 10_000).wire_tap(Flow.async_boundary().to(Sink.foreach(slow))).run_with(Sink.count(), system)
    )
    try:
        assert tapped.result(10) == 10_000
    finally:
        blocked.set()


def test_divert_to_routes_element_by_element(system):
    odd, even = (
        Source.range(0, 10)
        .divert_to(Sink.to_list(), lambda x: x % 2, mat=Keep.right)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert odd.result(10) == [1, 3, 5, 7, 9]
    assert even.result(10) == [0, 2, 4, 6, 8]
