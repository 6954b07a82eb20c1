"""Where chunks are cut changes no result of an operator with substreams, however the stream ends."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Directive, Flow, Sink, Source

LAW = settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
CHUNKS = (1, 3, None)


class Boom(Exception):
    pass


@pytest.fixture(scope="module")
def system():
    with ActorSystem("chunks-of-substreams") as system:
        yield system


def outcome(stream: Any, chunk: int | None, system: ActorSystem) -> tuple[list[Any], type | None]:
    """Return the elements that the stream emits, and its error."""
    seen: list[Any] = []
    if chunk is not None:
        stream = stream.max_chunk(chunk)
    error = stream.run_with(Sink.foreach(seen.append), system).exception(30)
    return seen, None if error is None else type(error)


def raising(at: int) -> Any:
    def fn(x: int) -> int:
        if x == at:
            raise Boom(x)
        return x

    return fn


def cut(n: int, at: int) -> Any:
    """A predicate that is true for each n-th element, and raises for `at`."""
    check = raising(at)
    return lambda x: check(x) % n == 0


IN_ORDER: dict[str, Any] = {  # the results come in one order
    "split_when, merge": lambda s, n, at: s.split_when(cut(n, at)).merge_substreams(),
    "split_after, merge": lambda s, n, at: s.split_after(cut(n, at)).merge_substreams(),
    "split_when, concat": lambda s, n, at: s.split_when(cut(n, at)).concat_substreams(),
    "split_after, concat": lambda s, n, at: s.split_after(cut(n, at)).concat_substreams(),
    "split_after, parallelism 2": lambda s, n, at: s.split_after(cut(n, at)).merge_substreams_with_parallelism(2),
    "split_when, fold, merge": lambda s, n, at: s.split_when(cut(n, at)).fold(0, lambda a, x: a + x).merge_substreams(),
    "split_after, map that fails": lambda s, n, at: s.split_after(cut(n, -1)).map(raising(at)).concat_substreams(),
    "split_when, map_concat": lambda s, n, at: (
        s.split_when(cut(n, at)).map_concat(lambda x: [x] * 3).merge_substreams()
    ),
    "split_after, take": lambda s, n, at: s.split_after(cut(n, at)).take(2).merge_substreams(),
    "split_when, nested": lambda s, n, at: (
        s.split_when(cut(n, at)).split_after(lambda x: x % 2 == 0).grouped(2).merge_substreams().merge_substreams()
    ),
    "flat_map_concat": lambda s, n, at: s.flat_map_concat(lambda x: Source.range(raising(at)(x) % n)),
    "flat_map_concat, source that fails": lambda s, n, at: s.flat_map_concat(
        lambda x: Source.single(x).map(raising(at))
    ),
    "prefix_and_tail": lambda s, n, at: (
        s.map(raising(at))
        .prefix_and_tail(n)
        .flat_map_concat(lambda pair: Source.from_iterable(pair[0]).concat(pair[1]))
    ),
    "flat_map_prefix": lambda s, n, at: s.map(raising(at)).flat_map_prefix(
        n, lambda prefix: Flow.map(lambda x: (len(prefix), x))
    ),
    "group_by, concat": lambda s, n, at: s.group_by(lambda x: raising(at)(x) % n, n).concat_substreams(),
}


@pytest.mark.parametrize("kind", IN_ORDER)
@given(size=st.integers(0, 25), n=st.integers(1, 6), at=st.integers(-1, 25))
@LAW
def test_results_and_their_order_do_not_depend_on_chunks(
    system: ActorSystem, kind: str, size: int, n: int, at: int
) -> None:
    # split_after(lambda x: True).merge_substreams() gave [3, 1, 2, 4], and with chunks of one element [1, 2, 3, 4]
    source = Source.range(size)
    outcomes = [outcome(IN_ORDER[kind](source, n, at), chunk, system) for chunk in CHUNKS]
    assert outcomes == outcomes[:1] * len(CHUNKS)


AS_SETS: dict[str, Any] = {  # the order between substreams is free; the results and the end are not
    "group_by": lambda s, n, at: s.group_by(lambda x: raising(at)(x) % n, n).merge_substreams(),
    "group_by, too many": lambda s, n, at: s.group_by(lambda x: x % n, 2).merge_substreams(),
    "group_by, evict_idle": lambda s, n, at: (
        s.group_by(lambda x: x * x % n, 2, when_full="evict_idle").fold((), lambda xs, x: (*xs, x)).merge_substreams()
    ),
    "group_by, backpressure": lambda s, n, at: (
        s.group_by(lambda x: raising(at)(x) // 3, 2, when_full="backpressure")
        .take(3)
        .fold((), lambda xs, x: (*xs, x))
        .merge_substreams()
    ),
    "group_by, parallelism 2": lambda s, n, at: (
        s.group_by(lambda x: raising(at)(x) % n, n).grouped(3).map(tuple).merge_substreams_with_parallelism(2)
    ),
    "flat_map_merge": lambda s, n, at: s.flat_map_merge(n, lambda x: Source.range(raising(at)(x), x + n)),
}


@pytest.mark.parametrize("kind", AS_SETS)
@given(size=st.integers(0, 25), n=st.integers(1, 6), at=st.integers(-1, 25))
@LAW
def test_results_of_substreams_that_run_side_by_side_do_not_depend_on_chunks(
    system: ActorSystem, kind: str, size: int, n: int, at: int
) -> None:
    source = Source.range(size)
    found = [outcome(AS_SETS[kind](source, n, at), chunk, system) for chunk in CHUNKS]
    outcomes = [(Counter(seen), error) for seen, error in found]
    assert outcomes == outcomes[:1] * len(CHUNKS)


def test_the_function_is_called_once_with_an_element_that_waits_for_a_substream(system: ActorSystem) -> None:
    asked: list[int] = []

    def key(x: int) -> int:
        asked.append(x)
        return x // 3

    stream = Source.range(12).group_by(key, 1, when_full="backpressure").take(3).merge_substreams()
    assert outcome(stream, None, system) == (list(range(12)), None)
    assert asked == list(range(12))


@pytest.mark.expects_log("skipped: Boom: 4; in stage split_after")
def test_a_split_that_resumes_leaves_the_element_out_however_chunks_are_cut(system: ActorSystem) -> None:
    stream = (
        Source.range(9)
        .split_after(cut(3, 4))
        .fold((), lambda xs, x: (*xs, x))
        .merge_substreams()
        .with_attributes(decider=lambda _: Directive.RESUME)
    )
    for chunk in CHUNKS:
        assert outcome(stream, chunk, system) == ([(0,), (1, 2, 3), (5, 6), (7, 8)], None)


def test_a_younger_substream_passes_one_that_waits(system: ActorSystem) -> None:
    first: Future[int] = Future()
    seen: list[int] = []

    def take(x: int) -> None:
        seen.append(x)
        if len(seen) == 3:
            first.set_result(0)

    def call(x: int) -> Any:
        return x if x else first

    Source.range(4).split_after(lambda x: True).map_async(1, call).merge_substreams().run_with(
        Sink.foreach(take), system
    ).result(30)
    assert sorted(seen[:3]) == [1, 2, 3]
    assert seen[3] == 0
