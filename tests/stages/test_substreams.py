"""group_by, split_when, split_after: every chunking gives the model's substreams; ends, failures and demand as in Akka Streams."""

from __future__ import annotations

import itertools
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Directive, Flow, Keep, Sink, Source, TooManySubstreams
from streamactors.errors import BuildError
from streamactors.stages.limit.predicates import TakeUntil
from streamactors.stages.substreams.flat_map import FlatMapMerge
from streamactors.testing import TestSink, TestSource
from tests.actors.eventually import eventually
from tests.stages.harness import Bench

LAW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
ELEMENTS = st.lists(st.integers(0, 40), max_size=60)
CHUNKS = st.integers(1, 9)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("substreams") as system:
        yield system


def run(stream, system):
    return stream.run_with(Sink.to_list(), system).result(60)


def chunked(elements, size):
    return Source.from_iterable(elements).max_chunk(size).async_boundary(size)


def by_key(elements, key):
    groups = defaultdict(list)
    for element in elements:
        groups[key(element)].append(element)
    return groups


def collected(sub_flow):
    return sub_flow.fold([], lambda group, x: [*group, x])


# ── results ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@given(elements=ELEMENTS, size=CHUNKS, inside=st.sampled_from([None, 1, 3]))
@LAW
def test_each_substream_has_the_elements_of_its_key_in_their_order(system, elements, size, inside):
    stream = chunked(elements, size).group_by(lambda x: x % 5, 5)
    if inside is not None:
        stream = stream.max_chunk(inside)
    found = sorted(run(collected(stream).merge_substreams(), system))
    assert found == sorted(by_key(elements, lambda x: x % 5).values())


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_merged_results_keep_the_order_of_each_substream(system, elements, size):
    found = run(chunked(elements, size).group_by(lambda x: x % 3, 3).map(lambda x: x + 100).merge_substreams(), system)
    assert by_key([x - 100 for x in found], lambda x: x % 3) == by_key(elements, lambda x: x % 3)


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_split_when_and_split_after_cut_as_their_models(system, elements, size):
    def cut(x):
        return x % 7 == 0

    before, after = [], []
    for x in elements:
        if cut(x) or not before:
            before.append([])
        before[-1].append(x)
    for x in elements:
        if not after or cut(after[-1][-1]):
            after.append([])
        after[-1].append(x)
    source = chunked(elements, size)
    assert run(collected(source.split_when(cut)).concat_substreams(), system) == before
    assert run(collected(source.split_after(cut)).concat_substreams(), system) == after
    assert sorted(run(collected(source.split_when(cut)).merge_substreams(), system)) == sorted(before)


def test_a_sub_flow_takes_any_operator_and_a_sink_of_its_own(system):
    seen = []
    stream = Source.range(12).group_by(lambda x: x % 3, 3).filter(lambda x: x > 2).grouped(2)
    ended = stream.to(Sink.foreach(seen.append)).run(system)
    assert ended is not None
    flow = Flow.group_by(lambda x: x % 2, 2).reduce(lambda a, b: a + b).merge_substreams()
    assert sorted(run(Source.range(5).via(flow), system)) == [4, 6]
    assert sorted(
        run(Source.range(6).group_by(lambda x: x % 3, 3).async_boundary().map(str).merge_substreams(), system)
    ) == list("012345")


def test_none_is_a_key_like_any_other(system):
    assert run(collected(Source.range(3).group_by(lambda _: None, 1)).merge_substreams(), system) == [[0, 1, 2]]


# ── too many ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.expects_log("skipped: ")
def test_a_key_too_many_fails_the_stream_and_resume_drops_its_elements(system):
    stream = collected(Source.from_iterable([1, 2, 3, 1]).group_by(lambda x: x, 2)).merge_substreams()
    with pytest.raises(TooManySubstreams, match="key 3 needs more than max_substreams=2") as caught:
        run(stream, system)
    assert any("group_by" in note for note in caught.value.__notes__)
    resumed = stream.with_attributes(decider=lambda _: Directive.RESUME)
    assert sorted(run(resumed, system)) == [[1, 1], [2]]


def test_a_closed_substream_counts_and_its_elements_are_dropped(system):
    stream = Source.from_iterable([1, 1, 1, 2]).group_by(lambda x: x, 1).take(1).merge_substreams()
    with pytest.raises(TooManySubstreams):
        run(stream.max_chunk(1), system)
    one = Source.from_iterable([1, 1, 1]).group_by(lambda x: x, 1).take(1).merge_substreams()
    assert run(one.max_chunk(1), system) == [1]


def test_a_closed_substream_opens_again_when_that_is_allowed(system):
    source, sink = (
        TestSource.probe()
        .group_by(lambda x: x, 1, allow_closed_substream_recreation=True)
        .take(1)
        .merge_substreams()
        .to_mat(TestSink.probe(), Keep.both)
        .run(system)
    )
    sink.request(5)
    for element in (1, 1, 2):
        source.send_next(element)
        sink.expect_next(element)
    source.send_complete()
    sink.expect_complete()


@given(
    elements=ELEMENTS,
    size=CHUNKS,
    inside=st.sampled_from([None, 1, 3]),
    n=st.integers(1, 4),
    when_full=st.sampled_from(["fail", "backpressure"]),
)
@LAW
def test_a_key_that_opens_again_gets_each_element_that_its_last_substream_left(
    system, elements, size, inside, n, when_full
):
    # a chunk of one key comes -> its substream takes n and cancels -> the rest of the chunk was dropped: the result depended on the chunks
    stream = chunked(elements, size).group_by(
        lambda x: x % 5, 5, when_full=when_full, allow_closed_substream_recreation=True
    )
    if inside is not None:
        stream = stream.max_chunk(inside)
    found = run(collected(stream.take(n)).merge_substreams(), system)
    keyed = by_key(elements, lambda x: x % 5).values()
    assert sorted(found) == sorted(xs[i : i + n] for xs in keyed for i in range(0, len(xs), n))


ENDING = {
    "take_until": lambda flow: flow.take_until(lambda x: x % 3 == 0),
    "take_while": lambda flow: flow.take_while(lambda x: x % 3, inclusive=True),
    "map, then take_until": lambda flow: flow.map(lambda x: x).take_until(lambda x: x % 3 == 0),
    "a stage between": lambda flow: flow.zip_with_index().map(lambda pair: pair[0]).take_until(lambda x: x % 3 == 0),
    "a stage that is not fused": lambda flow: flow.via(Flow.from_stage(TakeUntil(lambda x: x % 3 == 0))),
}


@pytest.mark.parametrize("flow", ENDING)
@given(
    elements=ELEMENTS | st.just(list(range(400))),
    size=CHUNKS | st.just(400),
    when_full=st.sampled_from(["fail", "backpressure"]),
)
@LAW
def test_a_key_that_opens_again_gets_the_rest_of_a_chunk_that_its_last_substream_ended_within(
    system, flow, elements, size, when_full
):
    stream = chunked(elements, size).group_by(
        lambda x: x % 5, 5, when_full=when_full, allow_closed_substream_recreation=True
    )
    found = run(collected(ENDING[flow](stream)).merge_substreams(), system)
    assert sorted(x for group in found for x in group) == sorted(elements)
    for group in found:
        assert all(x % 3 for x in group[:-1]), "a substream ends with the first element that its flow ends at"


@pytest.mark.parametrize(
    ("when_full", "elements"),
    [("backpressure", [1, 1, 1, 1, 2, 2]), ("evict_idle", [1, 1, 1, 1, 2, 2]), ("evict_idle", [1, 1, 1, 2, 2, 1])],
)
def test_a_key_opens_again_when_there_is_room_for_it(system, when_full, elements):
    stream = Source.from_iterable(elements).group_by(
        lambda x: x, 1, when_full=when_full, allow_closed_substream_recreation=True
    )
    runs = [list(group) for _, group in itertools.groupby(elements)]
    assert run(collected(stream.take(2)).merge_substreams(), system) == [
        xs[i : i + 2] for xs in runs for i in range(0, len(xs), 2)
    ]


def test_backpressure_waits_for_a_substream_to_end(system):
    keys = [1, 1, 2, 2, 3, 3]
    stream = (
        Source.from_iterable(keys)
        .group_by(lambda x: x, 1, when_full="backpressure")
        .take(2)
        .fold(0, lambda a, x: a + x)
    )
    assert run(stream.merge_substreams(), system) == [2, 4, 6]


@given(keys=st.lists(st.integers(0, 6), max_size=40), size=CHUNKS)
@LAW
def test_evict_idle_completes_the_oldest_and_loses_nothing(system, keys, size):
    stream = collected(chunked(keys, size).group_by(lambda x: x, 2, when_full="evict_idle")).merge_substreams()
    found = run(stream, system)
    assert sorted(itertools.chain.from_iterable(found)) == sorted(keys)
    assert all(len(set(group)) == 1 for group in found)


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_failure_of_one_substream_fails_all(system):
    with pytest.raises(ZeroDivisionError):
        run(Source.range(-3, 3).group_by(lambda x: x % 2, 2).map(lambda x: 1 // x).merge_substreams(), system)


def test_a_failure_of_upstream_fails_all(system):
    failing = Source.range(3).concat(Source.failed(ValueError("gone")))
    with pytest.raises(ValueError, match="gone"):
        run(collected(failing.group_by(lambda x: x, 9)).merge_substreams(), system)


def test_cancelling_the_results_cancels_upstream_and_all_substreams(system):
    stopped = []
    stream = (
        Source.range(1_000_000)
        .group_by(lambda x: x % 3, 3)
        .do_on_cancel(lambda cause, normal: stopped.append(normal))
        .merge_substreams()
        .take(4)
    )
    assert len(run(stream, system)) == 4
    eventually(lambda: stopped == [True] * 3)


def test_an_error_of_the_key_names_stage_and_element(system):
    with pytest.raises(ZeroDivisionError) as caught:
        run(Source.range(-1, 2).group_by(lambda x: 1 // x, 9).merge_substreams(), system)
    assert any("group_by" in note and "0" in note for note in caught.value.__notes__)
    with pytest.raises(TypeError, match="unhashable"):
        run(Source.range(2).group_by(lambda x: [x], 9).merge_substreams(), system)


# ── demand ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_without_demand_for_results_upstream_is_asked_for_a_bounded_number(system):
    source, sink = (
        TestSource.probe()
        .group_by(lambda x: x % 2, 2)
        .merge_substreams()
        .max_chunk(1)
        .to_mat(TestSink.probe(), Keep.both)
        .run(system)
    )
    sink.request(1)
    source.send_next(0)
    sink.expect_next(0)
    source.send_next(2)
    sink.expect_no_message("50ms")
    assert source.pending <= 1
    sink.request(1)
    sink.expect_next(2)
    sink.cancel()


def test_ten_thousand_substreams_leave_nothing_behind(system):
    n = 10_000
    assert (
        sum(
            run(Source.range(n * 2).group_by(lambda x: x % n, n).fold(0, lambda a, _: a + 1).merge_substreams(), system)
        )
        == 2 * n
    )


@pytest.mark.parametrize(
    ("arguments", "options"), [((lambda x: x, 0), {}), ((5, 3), {}), ((lambda x: x, 2), {"when_full": "wait"})]
)
def test_wrong_arguments_are_refused_at_the_line_that_wrote_them(arguments, options):
    with pytest.raises(BuildError, match="group_by"):
        Source.range(3).group_by(*arguments, **options)


@pytest.mark.parametrize("breadth", [2, 3, 4])
def test_inner_sources_take_turns_however_little_is_asked_for(timeless: ActorSystem, breadth: int) -> None:
    with Bench(timeless, FlatMapMerge(breadth, lambda x: Source.repeat(x))) as bench:
        bench.send(*range(breadth))
        for _ in range(3 * breadth):
            bench.request(1)
        assert bench.received == [*range(breadth)] * 3
