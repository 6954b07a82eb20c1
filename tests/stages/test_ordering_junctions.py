"""Fan-in junctions that decide by the elements: every chunking of the inputs gives the model's result."""

from __future__ import annotations

import heapq
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, GraphDSL, Sink, Source, ZipN, ZipWith
from streamactors.errors import BuildError, StreamError
from streamactors.stages.junctions.ordering import MergePrioritized, MergeSequence, MergeSorted, ZipAll
from streamactors.stages.junctions.zipping import ZipLatest
from streamactors.testing import TestSink, TestSource

LAW = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
INPUTS = st.lists(st.tuples(st.lists(st.integers(0, 30), max_size=25), st.integers(1, 7)), min_size=1, max_size=4)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("ordering") as system:
        yield system


def joined(junction, inputs, system, replay=None):
    """Feed (elements, chunk size) into a junction and return all results."""
    with GraphDSL() as g:
        join = g.add(junction)
        for index, (elements, size) in enumerate(inputs):
            source = Source.from_iterable(elements)
            if replay is not None:
                source = source.with_replay(on_done=replay[index].append)
            source.max_chunk(size).async_boundary(size) >> join.in_(index)
        result = g.add(Sink.to_list(), keep=True)
        join >> result
    (future,) = g.to_runnable().run(system)
    return future.result(10)


@given(inputs=INPUTS)
@LAW
def test_merge_sorted_equals_heapq_merge_for_every_chunking(system, inputs):
    inputs = [(sorted(elements), size) for elements, size in inputs]
    expected = list(heapq.merge(*[elements for elements, _ in inputs]))
    assert joined(MergeSorted(len(inputs)), inputs, system) == expected


def test_merge_sorted_takes_a_key_and_keeps_the_order_of_inputs_for_equal_elements(system):
    left = [("a", 3), ("b", 1)]
    right = [("c", 3), ("d", 1)]
    merged = Source.from_iterable(left).merge_sorted(Source.from_iterable(right), key=lambda pair: -pair[1])
    assert merged.run_with(Sink.to_list(), system).result(30) == [("a", 3), ("c", 3), ("b", 1), ("d", 1)]


def test_merge_sorted_fails_with_the_users_error_after_the_results_before_it(system):
    source = Source.from_iterable([1, 2, "x"]).merge_sorted(Source.from_iterable([1, 5, 6]))
    with pytest.raises(TypeError) as caught:
        source.run_with(Sink.to_list(), system).result(30)
    assert any("merge_sorted" in note for note in caught.value.__notes__)


@given(owners=st.lists(st.integers(0, 2), max_size=60), sizes=st.tuples(*[st.integers(1, 7)] * 3))
@LAW
def test_merge_sequence_restores_the_order_for_every_split_and_chunking(system, owners, sizes):
    inputs = [([n for n, owner in enumerate(owners) if owner == i], sizes[i]) for i in range(3)]
    assert joined(MergeSequence(3, lambda n: n), inputs, system) == list(range(len(owners)))


@pytest.mark.parametrize(
    ("left", "right", "complaint"),
    [([0, 1, 2], [1, 3], "two elements with number 1"), ([0, 2], [3], "element 1 is missing")],
)
def test_merge_sequence_names_a_number_that_is_missing_or_came_twice(system, left, right, complaint):
    merged = Source.from_iterable(left).merge_sequence(Source.from_iterable(right), number=lambda n: n)
    with pytest.raises(StreamError, match=complaint):
        merged.run_with(Sink.to_list(), system).result(30)


@given(inputs=INPUTS)
@LAW
def test_merge_prioritized_loses_nothing_and_keeps_the_order_of_each_input(system, inputs):
    tagged = [([(i, n) for n in range(len(elements))], size) for i, (elements, size) in enumerate(inputs)]
    merged = joined(MergePrioritized([i + 1 for i in range(len(inputs))]), tagged, system)
    for i, (elements, _) in enumerate(tagged):
        assert [pair for pair in merged if pair[0] == i] == elements
    assert len(merged) == sum(len(elements) for elements, _ in tagged)


def test_merge_prioritized_prefers_in_proportion(system):
    merged = Source.repeat("low").merge_prioritized(Source.repeat("high"), priorities=(1, 9)).take(2_000)
    high = merged.run_with(Sink.to_list(), system).result(10).count("high")
    assert 1_600 < high < 1_990


def test_merge_prioritized_passes_what_is_there_while_the_others_are_silent(system):
    with GraphDSL() as g:
        join = g.add(MergePrioritized([9, 1]))
        first, second = (g.add(TestSource.probe(), keep=True) for _ in range(2))
        sink = g.add(TestSink.probe(), keep=True)
        first >> join.in_(0)
        second >> join.in_(1)
        join >> sink
    _, low, out = g.to_runnable().run(system)
    out.request(1)
    low.send_next("only")
    out.expect_next("only")
    out.cancel()


@pytest.mark.parametrize("priorities", [(), (0, 1), (1, "x")])
def test_a_wrong_priority_is_refused(priorities):
    with pytest.raises(BuildError):
        MergePrioritized(priorities)


@given(inputs=INPUTS)
@LAW
def test_zip_all_equals_zip_longest_for_every_chunking(system, inputs):
    defaults = tuple(f"none-{i}" for i in range(len(inputs)))
    rows = itertools.zip_longest(*[elements for elements, _ in inputs], fillvalue=None)
    lengths = [len(elements) for elements, _ in inputs]
    expected = [
        tuple(row[i] if n < lengths[i] else defaults[i] for i in range(len(inputs))) for n, row in enumerate(rows)
    ]
    assert joined(ZipAll(*defaults), inputs, system) == expected


def test_merge_latest_emits_lists_once_all_inputs_have_had_an_element(system):
    source = Source.from_iterable([1]).merge_latest(Source.from_iterable([2]))
    assert source.run_with(Sink.to_list(), system).result(30) == [[1, 2]]


@pytest.mark.parametrize("empty", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 2, 8])
def test_merge_latest_completes_without_a_result_when_an_input_has_no_element(system, empty, size):
    # one input completed without an element -> no result could come any more, and the second element of each other input was
    # never taken, and the stream did not end
    inputs: list[Any] = [(range(5), size), (range(3), 1)]
    inputs.insert(empty, ([], 1))
    assert joined(ZipLatest(3, eager_complete=False), inputs, system) == []


@pytest.mark.parametrize("make", [MergeSorted, ZipAll, MergePrioritized])
def test_marks_of_both_inputs_come_to_their_end(system, make):
    done = [[], []]
    junction = make(None, None) if make is ZipAll else make([1, 2]) if make is MergePrioritized else make(2)
    joined(junction, [(range(7), 2), (range(5), 3)], system, replay=done)
    assert (done[0][-1], done[1][-1]) == (7, 5)


def test_names_for_several_sources_at_once(system):
    def list_of(source):
        return source.run_with(Sink.to_list(), system).result(30)

    one, two = Source.from_iterable([1, 3]), Source.from_iterable([2, 4])
    assert list_of(Source.combine([one, two], strategy=ZipN)) == list_of(one.zip(two)) == [(1, 2), (3, 4)]
    assert list_of(Source.combine(one, two, strategy=lambda n: ZipWith(lambda a, b: a + b, n))) == [3, 7]
    assert sorted(list_of(one.merge_prioritized(two, priorities=[1, 5]))) == [1, 2, 3, 4]
    assert list_of(one.interleave(two, two)) == [1, 2, 2, 3, 4, 4]
    assert list_of(one.interleave(two, segment=2)) == [1, 3, 2, 4]
    assert list_of(one.interleave()) == list_of(one.merge()) == [1, 3]
    assert list_of(one.concat_lazy(two, two)) == [1, 3, 2, 4, 2, 4]
    assert sorted(list_of(one.merge(*[two]))) == [1, 2, 3, 4]
    ends: list[Any] = []
    other = Sink.to_list().map_materialized_value(ends.append)
    assert list_of(one.also_to(other, Sink.ignore())) == [1, 3]
    assert ends[0].result(10) == [1, 3]
    assert list_of(one.zip_all(Source.from_iterable([9, 8, 7]), 0, 0)) == [(1, 9), (3, 8), (0, 7)]
