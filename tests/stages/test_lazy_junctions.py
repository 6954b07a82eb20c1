"""Operators that differ from another one in when they fetch, in what they combine, or in what they materialize."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Keep, Sink, Source
from streamactors.testing import TestSink, TestSource

LAW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
ELEMENTS = st.lists(st.integers(0, 30), max_size=25)
SIZE = st.integers(1, 7)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("lazy") as system:
        yield system


def in_chunks(elements, size):
    return Source.from_iterable(elements).max_chunk(size).async_boundary(size)


@given(first=ELEMENTS, second=ELEMENTS, size=SIZE)
@LAW
def test_concat_lazy_emits_one_source_after_the_other_for_every_chunking(system, first, second, size):
    both = in_chunks(first, size).concat_lazy(in_chunks(second, size))
    assert both.run_with(Sink.to_list(), system).result(10) == first + second


@given(first=ELEMENTS, second=ELEMENTS, size=SIZE)
@LAW
def test_prepend_lazy_emits_the_other_source_first_for_every_chunking(system, first, second, size):
    both = in_chunks(first, size).prepend_lazy(in_chunks(second, size))
    assert both.run_with(Sink.to_list(), system).result(10) == second + first


@pytest.mark.parametrize(("lazy", "fetched"), [(True, []), (False, [0])])
def test_concat_lazy_fetches_nothing_of_the_second_source_before_the_first_has_completed(system, lazy, fetched):
    seen: list[int] = []
    second = Source.range(3).max_chunk(1).map(lambda x: seen.append(x) or x).max_chunk(1)
    probe = TestSource.probe()
    both = probe.concat_lazy(second) if lazy else probe.concat(second)
    first, sink = both.to_mat(TestSink.probe(), Keep.both).run(system)
    sink.request(9)
    first.send_next(9)
    sink.expect_next(9)
    sink.expect_no_message("50ms")
    assert seen == fetched
    first.send_complete()
    sink.expect_next(0, 1, 2)
    sink.expect_complete()


@pytest.mark.parametrize("lazy", [True, False])
def test_prepend_lazy_fetches_nothing_of_this_source_before_the_other_has_completed(system, lazy):
    seen: list[int] = []
    this = Source.range(3).max_chunk(1).map(lambda x: seen.append(x) or x).max_chunk(1)
    other, probe = TestSource.probe().pre_materialize(system)
    sink = (this.prepend_lazy(probe) if lazy else this.prepend(probe)).run_with(TestSink.probe(), system)
    sink.request(9)
    other.send_next(9)
    sink.expect_next(9)
    sink.expect_no_message("50ms")
    assert bool(seen) is not lazy
    other.send_complete()
    sink.expect_next(0, 1, 2)
    sink.expect_complete()


@pytest.mark.parametrize("eager", [True, False])
def test_zip_latest_with_emits_what_the_function_makes_of_the_latest_elements(system, eager):
    left, first = TestSource.probe().pre_materialize(system)
    right, second = TestSource.probe().pre_materialize(system)
    sums = first.zip_latest_with(second, lambda x, y: x + y, eager_complete=eager)
    sink = sums.run_with(TestSink.probe(), system)
    sink.request(9)
    left.send_next(1)
    right.send_next(10)
    sink.expect_next(11)
    left.send_next(2)
    sink.expect_next(12)
    left.send_complete()
    if eager:
        sink.expect_complete()
    else:
        right.send_next(20)
        sink.expect_next(22)
        right.send_complete()
        sink.expect_complete()


def test_wire_tap_mat_materializes_what_its_sink_does(system):
    tapped = Source.range(5).wire_tap(Sink.to_list(), mat=Keep.right)
    taken, passed = tapped.to_mat(Sink.to_list(), Keep.both).run(system)
    assert passed.result(10) == [0, 1, 2, 3, 4]
    assert set(taken.result(10)) <= {0, 1, 2, 3, 4}


@given(lengths=st.lists(st.integers(0, 9), max_size=9), size=SIZE)
@LAW
def test_flatten_concat_emits_the_sources_one_after_the_other_for_every_chunking(system, lengths, size):
    flat = in_chunks(lengths, size).map(Source.range).flatten_concat()
    expected = list(itertools.chain.from_iterable(map(range, lengths)))
    assert flat.run_with(Sink.to_list(), system).result(10) == expected
