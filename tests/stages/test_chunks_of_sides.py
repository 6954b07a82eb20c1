"""Where chunks are cut changes neither the results of also_to, divert_to and wire_tap nor how they end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors import ActorSystem, Broadcast, Flow, GraphDSL, Sink, Source

LAW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
Outcome = tuple[type | None, list[int], list[int]]


class Boom(Exception):
    pass


@pytest.fixture(scope="module")
def system():
    with ActorSystem("chunks-of-sides") as system:
        yield system


def raising(at: int) -> Callable[[int], int]:
    def fn(x: int) -> int:
        if x == at:
            raise Boom(x)
        return x

    return fn


def same(x: int) -> int:
    return x


SIDES: dict[str, Callable[[int, list[int]], Sink[int, Any]]] = {  # the place of an element is known throughout the side
    "sound": lambda k, side: Sink.foreach(side.append),
    "foreach": lambda k, side: Sink.foreach(lambda x: side.append(raising(k)(x))),
    "map": lambda k, side: Flow.map(raising(k)).to(Sink.foreach(side.append)),
    "filter": lambda k, side: Flow.filter(lambda x: raising(k)(x) % 3 != 1).to(Sink.foreach(side.append)),
    "filter, map": lambda k, side: Flow.filter(lambda x: x % 3 != 1).map(raising(k)).to(Sink.foreach(side.append)),
    "map_concat": lambda k, side: Flow.map_concat(lambda x: [raising(k)(x)] * 2).to(Sink.foreach(side.append)),
    "map, foreach": lambda k, side: Flow.map(same).to(Sink.foreach(lambda x: side.append(raising(k)(x)))),
    "drop, foreach": lambda k, side: Flow.drop(2).to(Sink.foreach(lambda x: side.append(raising(k)(x)))),
    "take": lambda k, side: Flow.take(k + 1).to(Sink.foreach(side.append)),
    "map, take": lambda k, side: Flow.map(same).take(k + 1).to(Sink.foreach(side.append)),
    "take_while": lambda k, side: Flow.take_while(lambda x: x < k).to(Sink.foreach(side.append)),
    "take_while, inclusive": lambda k, side: Flow.take_while(lambda x: x < k, inclusive=True).to(
        Sink.foreach(side.append)
    ),
    "take, then map": lambda k, side: Flow.take(20).map(raising(k)).to(Sink.foreach(side.append)),
    "head": lambda k, side: Flow.map(lambda x: (side.append(x), x)[1]).filter(lambda x: x >= k).to(Sink.head_option()),
    "fold": lambda k, side: Sink.fold(0, lambda a, x: (side.append(raising(k)(x)), a)[1]),
}
MAINS: dict[str, Flow[Any, Any, Any]] = {
    "direct": Flow.identity(),
    "map": Flow.map(same),
    "map_concat": Flow.map_concat(lambda x: [x]),
}
FORKS: dict[str, Callable[[Any, Any], Any]] = {
    "also_to": lambda stream, side: stream.also_to(side),
    "also_to several": lambda stream, side: stream.also_to(Sink.ignore(), side),
    "divert_to": lambda stream, side: stream.divert_to(side, when=lambda x: x % 3 != 2),
}


def uneven(size: int) -> Any:
    """A source whose chunks have many lengths."""
    return Source.range(size).grouped(7).map_concat(lambda xs: xs)


@st.composite
def chunkings(draw: st.DrawFn) -> tuple[int | None, int | None, bool]:
    """(max_chunk of the source, max_chunk of the whole graph, whether the source's own chunks are uneven)."""
    sizes = st.one_of(st.none(), st.integers(1, 40))
    return draw(sizes), draw(sizes), draw(st.booleans())


def run(fork: str, side: str, main: str, size: int, k: int, up: int, cut: Any, system: ActorSystem) -> Outcome:
    """Run 0, 1, … through a fork with a side that ends at `k`, and an upstream that fails at `up`."""
    of_source, of_graph, is_uneven = cut
    seen: list[int] = []
    aside: list[int] = []
    source: Any = uneven(size) if is_uneven else Source.range(size)
    source = source.map(raising(up))
    if of_source is not None:
        source = source.max_chunk(of_source)
    stream = FORKS[fork](source, SIDES[side](k, aside)).via(MAINS[main])
    if of_graph is not None:
        stream = stream.max_chunk(of_graph)
    error = stream.run_with(Sink.foreach(seen.append), system).exception(30)
    return None if error is None else type(error), seen, aside


LOCK_STEP = (1, 1, False)


@pytest.mark.parametrize("fork", FORKS)
@given(
    side=st.sampled_from(sorted(SIDES)),
    main=st.sampled_from(sorted(MAINS)),
    size=st.integers(0, 80),
    k=st.integers(0, 80),
    up=st.integers(-1, 80),
    cuts=st.lists(chunkings(), min_size=2, max_size=3),
)
@LAW
def test_results_and_end_are_those_of_lock_step(
    system: ActorSystem, fork: str, side: str, main: str, size: int, k: int, up: int, cuts: Any
) -> None:
    # also_to of 1 … 8 whose side failed at 4 gave the stream 1 … 4 in lock-step and 1 … 5 in chunks; when upstream failed in the same chunk,
    # a side that cancelled completed the stream in lock-step and failed it in chunks
    outcomes = [run(fork, side, main, size, k, up, cut, system) for cut in (LOCK_STEP, (None, None, False), *cuts)]
    assert outcomes == outcomes[:1] * len(outcomes)


@pytest.mark.parametrize("chunk", [None, 1, 2, 3, 100])
@pytest.mark.parametrize("side", ["map", "foreach", "map, foreach", "filter", "fold"])
def test_the_stream_gets_what_the_side_has_taken_without_failing(
    side: str, chunk: int | None, system: ActorSystem
) -> None:
    for size, k in ((8, 4), (3_000, 1_500)):
        assert run("also_to", side, "map", size, k, -1, (chunk, chunk, False), system)[:2] == (Boom, list(range(k)))


@pytest.mark.parametrize("chunk", [None, 1, 100])
def test_the_stream_gets_what_came_before_the_diverted_element_that_failed(
    chunk: int | None, system: ActorSystem
) -> None:
    error, seen, aside = run("divert_to", "map", "map", 3_000, 1_500, -1, (chunk, chunk, False), system)
    assert error is Boom
    assert seen == [x for x in range(1_500) if x % 3 == 2]
    assert aside == [x for x in range(1_500) if x % 3 != 2]


@pytest.mark.parametrize("chunk", [None, 1, 100])
def test_a_side_that_cancels_ends_the_stream_with_its_last_element(chunk: int | None, system: ActorSystem) -> None:
    cut = (chunk, chunk, False)
    assert run("also_to", "take", "map", 3_000, 1_500, -1, cut, system)[:2] == (None, list(range(1_501)))
    assert run("also_to", "map, take", "direct", 3_000, 1_500, 1_600, cut, system)[:2] == (None, list(range(1_501)))


@pytest.mark.parametrize("chunk", [None, 1, 100])
def test_a_side_whose_later_stage_fails_after_the_first_has_cancelled_fails_the_stream(
    chunk: int | None, system: ActorSystem
) -> None:
    assert run("also_to", "take, then map", "direct", 30, 10, -1, (chunk, chunk, False), system) == (
        Boom,
        list(range(10)),
        list(range(10)),
    )


@given(
    k=st.integers(0, 60),
    size=st.integers(0, 60),
    chunk=st.one_of(st.none(), st.integers(1, 40)),
    side=st.sampled_from(["filter, then foreach", "detach", "boundary", "async", "grouped"]),
)
@LAW
def test_the_stream_gets_a_prefix_where_the_side_keeps_elements_or_their_places_are_not_known(
    system: ActorSystem, k: int, size: int, chunk: int | None, side: str
) -> None:
    async def later(x: int) -> int:
        return raising(k)(x)

    sink: Any = {
        "filter, then foreach": Flow.filter(lambda x: x % 3 != 1).to(Sink.foreach(raising(k))),
        "detach": Flow.detach().map(raising(k)).to(Sink.ignore()),
        "boundary": Flow.map(same).async_boundary().map(raising(k)).to(Sink.ignore()),
        "async": Flow.map_async(2, later).to(Sink.ignore()),
        "grouped": Flow.grouped(2).map_concat(same).map(raising(k)).to(Sink.ignore()),
    }[side]
    seen: list[int] = []
    stream = Source.range(size).also_to(sink)
    stream = stream if chunk is None else stream.max_chunk(chunk)
    error = stream.run_with(Sink.foreach(seen.append), system).exception(30)
    fails = k < size and (side != "filter, then foreach" or k % 3 != 1)
    assert type(error) is (Boom if fails else type(None))
    assert seen == list(range(len(seen)))
    if not fails:
        assert len(seen) == size
    if side == "filter, then foreach" and fails:
        assert len(seen) <= k  # the side has passed whatever the stream gets


@pytest.mark.expects_log("a stream has failed and nobody has read its result")  # that of the side
@pytest.mark.parametrize("side", ["sound", "foreach", "map", "take", "map, take", "take_while", "fold"])
@given(k=st.integers(0, 60), size=st.integers(0, 60), up=st.integers(-1, 60), cuts=st.lists(chunkings(), max_size=2))
@LAW
def test_no_side_of_wire_tap_changes_the_stream(
    system: ActorSystem, side: str, k: int, size: int, up: int, cuts: Any
) -> None:
    for of_source, of_graph, is_uneven in (LOCK_STEP, (None, None, False), *cuts):
        seen: list[int] = []
        aside: list[int] = []
        source: Any = (uneven(size) if is_uneven else Source.range(size)).map(raising(up))
        stream = (source if of_source is None else source.max_chunk(of_source)).wire_tap(SIDES[side](k, aside))
        stream = stream if of_graph is None else stream.max_chunk(of_graph)
        error = stream.run_with(Sink.foreach(seen.append), system).exception(30)
        fails = 0 <= up < size
        assert type(error) is (Boom if fails else type(None))
        assert seen == list(range(up if fails else size))
        assert aside == sorted(set(aside))
        assert set(aside) <= set(seen)


@given(k=st.integers(0, 60), size=st.integers(0, 60), cuts=st.lists(chunkings(), min_size=2, max_size=3))
@LAW
def test_a_broadcast_gives_its_other_output_everything(system: ActorSystem, k: int, size: int, cuts: Any) -> None:
    for of_source, _, is_uneven in cuts:
        flows = {
            "map": Flow.map(raising(k)),
            "take": Flow.take(k + 1),
            "take_while": Flow.take_while(lambda x: x < k),
        }
        for side, flow in flows.items():
            aside: list[int] = []
            source: Any = uneven(size) if is_uneven else Source.range(size)
            with GraphDSL() as g:
                junction = g.add(Broadcast(2))
                g.add(source if of_source is None else source.max_chunk(of_source)) >> junction
                first, second = g.add(Sink.foreach(aside.append), keep=True), g.add(Sink.to_list(), keep=True)
                junction.out(0) >> flow >> first
                junction.out(1) >> second
            ended, seen = g.to_runnable().run(system)
            assert seen.result(30) == list(range(size))
            assert type(ended.exception(30)) is (Boom if k < size and side == "map" else type(None))
            assert aside == list(range(min(size, k + (side == "take"))))
