"""What junctions promise, scenario by scenario."""

from __future__ import annotations

import itertools
import threading

import pytest

from streamactors import (
    ActorSystem,
    Balance,
    Broadcast,
    Concat,
    Flow,
    GraphDSL,
    Interleave,
    Keep,
    Merge,
    MergePreferred,
    OrElse,
    Partition,
    Sink,
    Source,
    VirtualClock,
    Zip,
    ZipLatest,
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


def fan_in(junction, system, inlets=2):
    with GraphDSL() as g:
        join = g.add(junction)
        sources = [g.add(TestSource.probe(), keep=True) for _ in range(inlets)]
        sink = g.add(TestSink.probe(), keep=True)
        for i, source in enumerate(sources):
            source >> join.in_(i)
        join >> sink
    return g.to_runnable().run(system)


# ── Broadcast ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_broadcast_does_not_pull_while_one_output_has_no_demand(system):
    source, first, second = fan_out(Broadcast(2), system)
    first.request(5)
    first.expect_no_message(50)
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
    first.expect_no_message(50)
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


# ── Merge ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_merge_goes_on_with_the_others_when_one_input_completes(system):
    first, second, sink = fan_in(Merge(2), system)
    sink.request(10)
    first.send_next(1)
    sink.expect_next(1)
    first.send_complete()
    second.send_next(2)
    sink.expect_next(2)
    second.send_complete()
    sink.expect_complete()


def test_merge_fails_when_one_input_fails_and_cancels_the_others(system):
    first, second, sink = fan_in(Merge(2), system)
    sink.request(1)
    first.send_error(Boom())
    assert isinstance(sink.expect_error(), Boom)
    second.expect_cancellation()


def test_merge_that_completes_eagerly_ends_with_the_first_input(system):
    first, second, sink = fan_in(Merge(2, eager_complete=True), system)
    sink.request(1)
    first.send_complete()
    sink.expect_complete()
    second.expect_cancellation()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_merge_emits_what_waits_in_the_order_of_its_arrival(order, system):
    *sources, sink = fan_in(Merge(3), system, inlets=3)
    for i in order:
        sources[i].send_next(i)
    for element in order:
        sink.request(1)
        assert sink.expect_next() == element


def test_merge_is_fair_to_an_input_beside_one_that_is_always_ready(system):
    busy = Source.range(0, 10**9)
    seen = (
        busy.map(lambda _: 0).merge(Source.range(0, 100).map(lambda _: 1)).take(5_000).run_with(Sink.to_list(), system)
    )
    assert sum(seen.result(10)) == 100


@pytest.mark.parametrize("chunk", [1, 2, 2_048])
def test_merge_preferred_takes_all_of_the_preferred_input_within_its_share(chunk, system):
    # a source that was interrupted in its first slices makes chunks of one: the others must not go between them
    n = 100
    with GraphDSL() as g:
        join = g.add(MergePreferred(3))
        sink = g.add(Sink.to_list(), keep=True)
        g.add(Source.from_iterable(["p"] * n).max_chunk(chunk)) >> join.in_(0)
        for i in range(3):
            g.add(Source.from_iterable(["s"] * n)) >> join.in_(i + 1)
        join >> sink
    (result,) = (future.result(10) for future in g.to_runnable().run(system))
    assert result[: 2 * n].count("p") == n
    assert len(result) == 4 * n


def test_merge_preferred_waits_for_no_input_that_has_nothing_however_busy_it_is(system):
    # all of its elements are filtered out, and it looks for more in each of its turns: the others must not wait for it
    nothing = Source.repeat("p").filter(lambda _: False)
    with GraphDSL() as g:
        join = g.add(MergePreferred(2))
        sink = g.add(Sink.to_list(), keep=True)
        g.add(nothing) >> join.in_(0)
        for i in (1, 2):
            g.add(Source.from_iterable(["s"] * 500)) >> join.in_(i)
        join >> Flow.take(1_000) >> sink
    (result,) = (future.result(30) for future in g.to_runnable().run(system))
    assert result == ["s"] * 1_000


# ── Zip ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_zip_pairs_and_completes_with_the_shorter(system):
    pairs = Source.from_iterable([1, 2, 3]).zip(Source.from_iterable("ab")).run_with(Sink.to_list(), system)
    assert pairs.result(10) == [(1, "a"), (2, "b")]


def test_zip_waits_for_the_partner_of_a_pending_element_then_completes_without_demand(system):
    left, right, sink = fan_in(Zip(), system)
    sink.request(1)
    left.send_next(1)
    left.send_complete()
    sink.expect_no_message(50)
    right.send_next("a")
    sink.expect_next((1, "a"))
    sink.expect_complete()
    right.expect_cancellation()


def test_zip_fails_with_a_failing_side(system):
    left, right, sink = fan_in(Zip(), system)
    sink.request(1)
    left.send_next(1)
    right.send_error(Boom())
    assert isinstance(sink.expect_error(), Boom)


def test_zip_latest_pairs_the_latest_and_waits_for_a_first_pair(system):
    with GraphDSL() as g:
        join, sink = g.add(ZipLatest()), g.add(TestSink.probe(), keep=True)
        left, right = g.add(TestSource.probe(), keep=True), g.add(TestSource.probe(), keep=True)
        left >> join.in_(0)
        right >> join.in_(1)
        join >> sink
    probes = dict(zip(("sink", "left", "right"), g.to_runnable().run(system), strict=True))
    sink, left, right = probes["sink"], probes["left"], probes["right"]
    sink.request(9)
    left.send_next(1)
    right.send_next("a")
    sink.expect_next((1, "a"))
    right.send_next("b")
    sink.expect_next((1, "b"))
    left.send_complete()
    sink.expect_complete()
    right.expect_cancellation()


def test_zip_latest_of_single_elements_is_their_pair(system):
    # As with zip: an input that has completed with its element pending waits for the partner.
    for left, right, expected in (
        (Source.single(1), Source.single("a"), [(1, "a")]),
        (Source.single(1), Source.from_iterable("ab").initial_delay("5ms"), [(1, "a")]),
        (Source.single(1), Source.empty(), []),
        (Source.empty(), Source.single("a"), []),
    ):
        assert left.zip_latest(right).run_with(Sink.to_list(), system).result(30) == expected
    failed = Source.single(1).zip_latest(Source.failed(ValueError("no partner"))).run_with(Sink.to_list(), system)
    with pytest.raises(ValueError, match="no partner"):
        failed.result(30)


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
    first.expect_no_message(50)
    second.request(1)
    second.expect_next(1)
    first.expect_next(2)


# ── also_to, divert_to, wire_tap ──────────────────────────────────────────────────────────────────────────────────────


def test_a_side_sink_of_also_to_that_cancels_cancels_the_stream(system):
    source, side, sink = (
        TestSource.probe()
        .also_to_mat(TestSink.probe(), Keep.both)
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
        .divert_to_mat(Sink.to_list(), lambda x: x % 2, Keep.right)
        .to_mat(Sink.to_list(), Keep.both)
        .run(system)
    )
    assert odd.result(10) == [1, 3, 5, 7, 9]
    assert even.result(10) == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    "junction", [MergePreferred(1), Merge(2), Zip(), Concat(2), Interleave(2), OrElse(), ZipLatest()]
)
def test_a_junction_without_demand_rests(junction):
    """A fan-in whose inputs have elements and whose output has no demand must not spin."""
    clock = VirtualClock()
    with ActorSystem("rests", clock=clock) as system:
        first, second, sink = fan_in(junction, system)
        clock.settle()
        for source in (first, second):
            if source.pending:
                source.unsafe_send_next(1)
        clock.settle()  # raises when something goes on running
        sink.request(1)
        clock.settle()
