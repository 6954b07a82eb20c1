"""What junctions with several inputs promise, scenario by scenario."""

from __future__ import annotations

import itertools

import pytest

from streamactors import (
    ActorSystem,
    Concat,
    Flow,
    GraphDSL,
    Interleave,
    Merge,
    MergePreferred,
    OrElse,
    Sink,
    Source,
    VirtualClock,
    Zip,
    ZipLatest,
)
from streamactors.testing import TestSink, TestSource


class Boom(Exception):
    pass


@pytest.fixture
def system():
    with ActorSystem("junctions") as system:
        yield system


def fan_in(junction, system, inlets=2):
    with GraphDSL() as g:
        join = g.add(junction)
        sources = [g.add(TestSource.probe(), keep=True) for _ in range(inlets)]
        sink = g.add(TestSink.probe(), keep=True)
        for i, source in enumerate(sources):
            source >> join.in_(i)
        join >> sink
    return g.to_runnable().run(system)


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
    sink.expect_no_message("50ms")
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
