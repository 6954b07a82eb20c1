"""Operators that group, fold, call asynchronously or watch: each equals a plain-Python model under every chunking."""

from __future__ import annotations

import asyncio
import itertools
import operator
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Directive, Sink, Source
from streamactors.errors import BuildError
from streamactors.stages.fold.fold_while import FoldWhile
from streamactors.stages.fold.grouping_by import GroupedAdjacentBy, GroupedAdjacentByWeighted, GroupedWeighted
from streamactors.stages.fold.map_with_resource import MapWithResource
from tests.actors.eventually import eventually
from tests.stages.laws import RUNS, Case, check_resume, check_run, check_user_error

LAW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
ELEMENTS = st.lists(st.integers(0, 9), max_size=40)
CHUNKS = st.integers(1, 9)


@pytest.fixture(scope="module")
def system():
    with ActorSystem("more") as system:
        yield system


def run(stream, system):
    return stream.run_with(Sink.to_list(), system).result(10)


def chunked(elements, size):
    return Source.from_iterable(elements).max_chunk(size).async_boundary(size)


def weighted(elements, least, cost):
    groups, group = [], []
    for element in elements:
        group.append(element)
        if sum(map(cost, group)) >= least:
            groups.append(group)
            group = []
    return groups + ([group] if group else [])


def adjacent_weighted(elements, key, most, cost):
    groups = []
    for element in elements:
        last = groups[-1] if groups else None
        if last and key(last[-1]) == key(element) and sum(map(cost, last)) + cost(element) <= most:
            last.append(element)
        else:
            groups.append([element])
    return groups


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_groups_cut_by_weight_and_by_key_equal_their_models(system, elements, size):
    source = chunked(elements, size)
    assert run(source.grouped_weighted(7, lambda x: x), system) == weighted(elements, 7, lambda x: x)
    expected = [list(group) for _, group in itertools.groupby(elements, key=lambda x: x // 4)]
    assert run(source.grouped_adjacent_by(lambda x: x // 4), system) == expected
    assert run(source.grouped_adjacent_by_weighted(lambda x: x // 4, 9, lambda x: x), system) == adjacent_weighted(
        elements, lambda x: x // 4, 9, lambda x: x
    )


def by_weight(hook):
    def cost(x):
        hook(x)
        return 1.0

    return GroupedWeighted(3, cost)


def by_key(hook):
    def key(x):
        hook(x)
        return x // 3

    return GroupedAdjacentBy(key)


def by_key_and_weight(hook):
    def key(x):
        hook(x)
        return x // 5

    return GroupedAdjacentByWeighted(key, 2, lambda _: 1)


def thirds(xs, n):
    return [xs[i : i + n] for i in range(0, len(xs), n)]


CASES = {
    "grouped_weighted": Case(by_weight, lambda xs: thirds(xs, 3), demand=None),
    "grouped_adjacent_by": Case(
        by_key, lambda xs: [list(group) for _, group in itertools.groupby(xs, key=lambda x: x // 3)], demand=None
    ),
    "grouped_adjacent_by_weighted": Case(
        by_key_and_weight, lambda xs: adjacent_weighted(xs, lambda x: x // 5, 2, lambda _: 1), demand=None
    ),
}


@pytest.mark.parametrize("name", CASES)
@given(steps=RUNS)
@LAW
def test_any_interleaving_keeps_the_laws_and_equals_the_model(timeless, name, steps):
    check_run(CASES[name], timeless, steps)


@pytest.mark.parametrize("kind", [ValueError, StopIteration])
@pytest.mark.parametrize("name", CASES)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
@LAW
def test_results_before_an_exception_go_out_first(timeless, name, kind, sizes, at):
    check_user_error(CASES[name], timeless, sizes, at, kind)


@pytest.mark.expects_log("skipped: ")
@pytest.mark.parametrize("name", CASES)
@given(sizes=st.lists(st.integers(1, 6), min_size=1, max_size=6), at=st.integers(0, 12))
@LAW
def test_resume_leaves_out_the_element_that_raised(timeless, name, sizes, at):
    check_resume(CASES[name], timeless, sizes, at)


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_operators_made_of_others_equal_their_models(system, elements, size):
    source = chunked(elements, size)
    assert run(source.accumulate(), system) == list(itertools.accumulate(elements))
    assert run(source.accumulate(max), system) == list(itertools.accumulate(elements, max))
    assert run(source.pairwise(), system) == list(itertools.pairwise(elements))
    assert run(source.map(lambda x: x if x % 2 else None).flatten_optional(), system) == [x for x in elements if x % 2]
    mixed = source.map(lambda x: x if x % 2 else str(x))
    assert run(mixed.collect_type(str), system) == [str(x) for x in elements if not x % 2]
    assert (
        run(source.collect_first(lambda x: x * 10 if x > 4 else None), system)
        == [x * 10 for x in elements if x > 4][:1]
    )
    whole = list(itertools.takewhile(lambda x: x < 7, elements))
    assert run(source.collect_while(lambda x: x if x < 7 else None), system) == whole
    assert run(source.stateful_map_concat(lambda: lambda x: [x] * x), system) == [x for x in elements for _ in range(x)]


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_fold_while_stops_at_the_first_value_that_fails_the_predicate(system, elements, size):
    sums = [0, *itertools.accumulate(elements)]
    expected = next((total for total in sums[1:] if total >= 12), sums[-1])
    assert run(chunked(elements, size).fold_while(0, lambda total: total < 12, operator.add), system) == [expected]


def test_fold_while_ends_an_endless_stream(system):
    assert run(Source.repeat(2).fold_while(0, lambda total: total < 9, operator.add), system) == [10]


@given(elements=ELEMENTS, size=CHUNKS)
@settings(LAW, max_examples=25)
def test_scan_async_and_fold_async_equal_scan_and_fold(system, elements, size):
    async def add(total, x):
        await asyncio.sleep(0)
        return total + x

    source = chunked(elements, size)
    assert run(source.scan_async(0, add), system) == [0, *itertools.accumulate(elements)]
    assert run(source.fold_async(0, add), system) == [sum(elements)]
    assert run(source.fold_async(0, lambda total, x: total + x), system) == [sum(elements)]


@pytest.mark.expects_log("skipped: ")
def test_scan_async_runs_one_call_at_a_time_and_resume_drops_the_element(system):
    running = []

    async def add(total, x):
        running.append(x)
        assert len(running) == 1
        await asyncio.sleep(0)
        running.clear()
        if x == 3:
            raise ValueError(x)
        return total + x

    stream = Source.range(1, 6).scan_async(0, add).with_attributes(decider=lambda _: Directive.RESUME)
    assert run(stream, system) == [0, 1, 3, 7, 12]
    running.clear()
    with pytest.raises(ValueError, match="3") as caught:
        run(Source.range(1, 6).scan_async(0, add), system)
    assert any("scan_async" in note for note in caught.value.__notes__)


def test_a_resource_is_opened_once_and_closed_once_however_the_stream_ends(system):
    log = []

    def stream(source):
        return source.map_with_resource(
            lambda: log.append("open") or [], lambda r, x: x + 1, lambda r: log.append("close")
        )

    assert run(stream(Source.range(3)), system) == [1, 2, 3]
    eventually(lambda: log == ["open", "close"])
    assert run(stream(Source.range(100)).take(1), system) == [1]
    eventually(lambda: log == ["open", "close"] * 2)
    with pytest.raises(TypeError):
        run(stream(Source.from_iterable([1, "x"])), system)
    eventually(lambda: log == ["open", "close"] * 3)
    last = Source.range(2).map_with_resource(list, lambda r, x: r.append(x) or x, lambda r: r)
    assert run(last, system) == [0, 1, [0, 1]]
    assert issubclass(MapWithResource, object)
    assert FoldWhile.handling.remembers


def test_unfold_resource_async_reads_to_the_end_and_closes_once(system):
    log = []

    async def open_it():
        log.append("open")
        return iter(range(5))

    async def read(it):
        await asyncio.sleep(0)
        return next(it, None)

    async def close(it):
        log.append("close")

    source = Source.unfold_resource_async(open_it, read, close)
    assert run(source, system) == [0, 1, 2, 3, 4]
    assert log == ["open", "close"]
    assert run(source.take(2), system) == [0, 1]
    assert closed(log, 2)


def closed(log, times):
    """Cancelling does not wait for `close`."""
    ended = threading.Event()
    for _ in range(500):
        if log.count("close") == times:
            return True
        ended.wait(0.01)
    return False


def test_unfold_resource_async_fails_with_the_error_of_a_function_and_still_closes(system):
    log = []

    async def open_it():
        return 1

    async def read(_):
        raise OSError("gone")

    async def close(_):
        log.append("close")

    with pytest.raises(OSError, match="gone"):
        run(Source.unfold_resource_async(open_it, read, close), system)
    assert log == ["close"]
    with pytest.raises(TypeError, match="something to await"):
        run(Source.unfold_resource_async(open_it, lambda _: 5, close), system)


@given(elements=ELEMENTS, size=CHUNKS)
@LAW
def test_deciding_sinks_equal_any_and_all(system, elements, size):
    source = chunked(elements, size)

    def big(x):
        return x > 7

    assert source.run_with(Sink.exists(big), system).result(10) is any(map(big, elements))
    assert source.run_with(Sink.for_all(big), system).result(10) is all(map(big, elements))
    assert source.run_with(Sink.none(big), system).result(10) is not any(map(big, elements))
    assert source.run_with(Sink.take_last(5), system).result(10) == elements[-5:]


def test_deciding_sinks_end_an_endless_stream_and_fail_with_the_predicate(system):
    assert Source.repeat(1).run_with(Sink.exists(lambda x: x == 1), system).result(10) is True
    assert Source.repeat(1).run_with(Sink.for_all(lambda x: x == 2), system).result(10) is False
    with pytest.raises(ZeroDivisionError):
        Source.range(3).run_with(Sink.exists(lambda x: 1 // x > 5), system).result(10)


def test_lazy_and_iterated_sources(system):
    made = []
    lazy = Source.lazy_single(lambda: made.append(1) or 7)
    assert made == []
    assert run(lazy, system) == [7]

    async def later():
        return Source.range(3)

    async def one():
        return 5

    assert run(Source.lazy_future(one), system) == [5]
    assert run(Source.lazy_future_source(later), system) == [0, 1, 2]
    assert run(Source.iterate(1, lambda x: x * 2, lambda x: x < 20), system) == [1, 2, 4, 8, 16]
    assert run(Source.iterate(1, lambda x: x * 2).take(3), system) == [1, 2, 4]


def test_iterate_computes_only_the_elements_that_are_asked_for(system):
    def next_of(x):
        if x == 3:
            raise ValueError("nobody has asked for the element after 3")
        return x + 1

    assert run(Source.iterate(1, next_of).take(3), system) == [1, 2, 3]
    assert run(Source.iterate(1, next_of, while_=lambda x: x < 9).take(3), system) == [1, 2, 3]
    assert run(Source.iterate(1, next_of, while_=lambda x: x < 3), system) == [1, 2]
    asked = []
    assert run(Source.iterate(0, lambda x: asked.append(x) or x + 1).take(1), system) == [0]
    assert asked == []


def test_hooks_are_called_once(system):
    first, causes = [], []
    stream = (
        Source.range(100).do_on_first(first.append).do_on_cancel(lambda cause, normal: causes.append(normal)).take(3)
    )
    assert run(stream, system) == [0, 1, 2]
    eventually(lambda: (first, causes) == ([0], [True]))
    with pytest.raises(ZeroDivisionError):
        run(Source.range(5).do_on_first(lambda x: 1 // x), system)


@pytest.mark.expects_log("skipped: ")
def test_on_error_continue_drops_the_elements_that_fail_and_names_them(system):
    errors = []
    stream = Source.range(-2, 3).map(lambda x: 6 // x).on_error_continue(errors.append, ZeroDivisionError)
    assert run(stream, system) == [-3, -6, 6, 3]
    assert [type(error) for error in errors] == [ZeroDivisionError]
    with pytest.raises(TypeError):
        run(Source.from_iterable([1, "x"]).map(lambda x: x + 1).on_error_continue(on=ZeroDivisionError), system)
    assert run(Source.failed(ValueError()).on_error_resume(lambda _: Source.range(2)), system) == [0, 1]


@pytest.mark.parametrize("least", [0, -1, "3", True])
def test_a_weight_must_be_a_number_above_zero(least):
    with pytest.raises(BuildError, match="min_weight"):
        Source.range(3).grouped_weighted(least, lambda _: 1)


@pytest.mark.parametrize("cost", [-1, "2", None])
def test_a_cost_that_is_no_weight_fails_with_the_stage_and_the_element(system, cost):
    with pytest.raises((TypeError, ValueError), match="cost must") as caught:
        run(Source.range(3).grouped_weighted(3, lambda _: cost), system)
    assert any("grouped_weighted" in note for note in caught.value.__notes__)
