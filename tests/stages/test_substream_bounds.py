"""Substreams hold a bounded number of elements, and take time in proportion to elements and substreams."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import ActorSystem, Flow, Keep, Sink, Source, TooManySubstreams
from streamactors.engine.island.connection import Connection
from streamactors.gauges import live_gauges
from streamactors.stages.substreams.group_by import GroupBy
from streamactors.stages.substreams.split import MOST_RUNNING, SplitAfter, SplitWhen
from streamactors.stages.substreams.substreams import MOST_ELEMENTS
from streamactors.testing import TestSink
from tests.stages.harness import Bench

AHEAD = 3 * 2_048
"""What the connections before and after the stage may hold."""


def tens(source: Any) -> Any:
    return source.split_when(lambda x: x % 10 == 0)


def tens_after(source: Any) -> Any:
    return source.split_after(lambda x: x % 10 == 0)


def thirds(source: Any) -> Any:
    return source.group_by(lambda x: x % 3, 3)


CUTS: dict[str, Any] = {
    "split_when": tens,
    "split_after": tens_after,
    "group_by": thirds,
    "split into ones": lambda source: source.split_after(lambda x: True),
    "evict_idle": lambda source: source.group_by(lambda x: x, 3, when_full="evict_idle"),
    "backpressure": lambda source: source.group_by(lambda x: x % 3, 3, when_full="backpressure"),
}
INNER: dict[str, Any] = {
    "nothing": lambda sub: sub,
    "map": lambda sub: sub.map(lambda x: x),
    "fold": lambda sub: sub.fold(0, lambda a, x: a + x),
    "buffer": lambda sub: sub.buffer(4),
    "nested": lambda sub: sub.flat_map_concat(Source.single),
    "prefix": lambda sub: sub.prefix_and_tail(1).flat_map_concat(
        lambda pair: Source.from_iterable(pair[0]).concat(pair[1])
    ),
}
MERGES: dict[str, Any] = {
    "merge": lambda sub: sub.merge_substreams(),
    "concat": lambda sub: sub.concat_substreams(),
    "parallelism 1": lambda sub: sub.merge_substreams_with_parallelism(1),
    "parallelism 2": lambda sub: sub.merge_substreams_with_parallelism(2),
}


def counted(system: ActorSystem, flow: Any) -> tuple[list[int], Any]:
    """Run an endless source through `flow` into a sink without demand; return the number of elements taken, and the sink."""
    taken = [0]

    def count(x: int) -> int:
        taken[0] += 1
        return x

    sink = flow(Source.iterate(0, lambda x: x + 1).map(count)).to_mat(TestSink.probe(), Keep.right).run(system)
    return taken, sink


@pytest.mark.usefixtures("virtual_clock")
@pytest.mark.parametrize("merge", MERGES)
@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("cut", CUTS)
def test_an_endless_source_is_held_up_where_nothing_is_taken(
    actor_system: ActorSystem, virtual_clock: Any, cut: str, inner: str, merge: str
) -> None:
    # Elements for substreams that nobody reads gathered without bound: 6 million in 3 s
    if "group" in cut or cut in ("evict_idle", "backpressure"):
        bound = 3 * MOST_ELEMENTS if inner == "fold" else MOST_ELEMENTS  # the folds that are read take their part
    else:
        bound = 10 * MOST_RUNNING  # as many substreams, of ten elements each
    endless = inner == "fold" and cut in ("group_by", "backpressure") and merge == "merge"  # a fold takes what comes
    if endless:
        pytest.skip("a fold of an endless substream takes every element, and holds none")
    taken, sink = counted(actor_system, lambda source: MERGES[merge](INNER[inner](CUTS[cut](source))))
    sink.request(2)
    virtual_clock.settle()
    assert taken[0] <= bound + AHEAD
    before = taken[0]
    virtual_clock.settle()
    assert taken[0] == before
    gauges = [gauge for gauge in live_gauges() if gauge.name.endswith("elements that wait for substreams")]
    assert gauges
    assert all(gauge.highest <= gauge.bound for gauge in gauges)
    sink.cancel()


def wants(system: ActorSystem, monkeypatch: pytest.MonkeyPatch, stream: Any) -> int:
    """Return how often a stage states its demand while the stream runs: a measure of its work."""
    calls = [0]
    want = Connection.want

    def counting(connection: Connection, n: int) -> None:
        calls[0] += 1
        want(connection, n)

    with monkeypatch.context() as counted_calls:
        counted_calls.setattr(Connection, "want", counting)
        stream.run_with(Sink.ignore(), system).result(120)
    return calls[0]


SCALES: dict[str, Any] = {
    "split_when, concat": lambda n: tens(Source.range(10 * n)).concat_substreams(),
    "split_when, merge": lambda n: tens(Source.range(10 * n)).merge_substreams(),
    "split_when, fold, concat": lambda n: tens(Source.range(10 * n)).fold(0, lambda a, x: a + x).concat_substreams(),
    "group_by": lambda n: Source.range(10 * n).group_by(lambda x: x % n, n).map(str).merge_substreams(),
    "group_by, concat": lambda n: Source.range(10 * n).group_by(lambda x: x % n, n).map(str).concat_substreams(),
    "flat_map_merge": lambda n: Source.range(n).flat_map_merge(n, lambda x: Source.range(10)),
}


@pytest.mark.parametrize("kind", SCALES)
def test_the_work_grows_with_the_number_of_substreams_and_not_with_its_square(
    actor_system: ActorSystem, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    # The list of all substreams was copied, and each of them asked, whenever one opened or ended
    few = wants(actor_system, monkeypatch, SCALES[kind](300))
    many = wants(actor_system, monkeypatch, SCALES[kind](1_200))
    assert many < 6 * few


# ── substreams that starve ────────────────────────────────────────────────────────────────────────────────────────────


def of_endless(group: Any, merge: Any = lambda sub: sub.merge_substreams_with_parallelism(1)) -> Any:
    return merge(group(Source.iterate(0, lambda x: x + 1)))


@pytest.mark.usefixtures("virtual_clock")
@pytest.mark.parametrize("chunk", [1, 7, None])
def test_fewer_substreams_are_read_than_there_are_keys_and_the_error_names_both(
    actor_system: ActorSystem, virtual_clock: Any, chunk: int | None
) -> None:
    stream = of_endless(thirds)
    future = (stream if chunk is None else stream.max_chunk(chunk)).run_with(Sink.ignore(), actor_system)
    virtual_clock.advance("4s")
    assert not future.done()
    virtual_clock.advance("2s")
    with pytest.raises(TooManySubstreams, match=r"with_parallelism\(1\) reads 1 of 3 substreams.*32,768 elements wait"):
        future.result(0)


def test_so_many_elements_wait_for_substreams_that_are_not_read_that_a_short_stream_completes(
    actor_system: ActorSystem,
) -> None:
    n = 9_000
    for chunk in (1, None):
        stream = thirds(Source.range(n)).concat_substreams()
        stream = stream if chunk is None else stream.max_chunk(chunk)
        found = stream.run_with(Sink.to_list(), actor_system).result(60)
        assert found == [*range(0, n, 3), *range(1, n, 3), *range(2, n, 3)]


@pytest.mark.usefixtures("virtual_clock")
@pytest.mark.parametrize("when_full", ["backpressure", "evict_idle"])
def test_an_element_without_a_substream_waits_for_one_to_end_and_none_ends(
    actor_system: ActorSystem, virtual_clock: Any, when_full: Any
) -> None:
    keys = [0, 1, 0, 2]  # 1 is silent longest; it is not read, so it cannot end before 0
    future = (
        Source.from_iterable(keys)
        .concat(Source.never())
        .group_by(lambda x: x, 2, when_full=when_full)
        .merge_substreams_with_parallelism(1)
        .run_with(Sink.ignore(), actor_system)
    )
    virtual_clock.advance("6s")
    with pytest.raises(TooManySubstreams, match=r"group_by: .* wait for elements"):
        future.result(0)


@pytest.mark.usefixtures("virtual_clock")
def test_a_flow_with_a_timer_may_end_its_substream_and_is_waited_for(
    actor_system: ActorSystem, virtual_clock: Any
) -> None:
    future = (
        Source.from_iterable([0, 1, 2])
        .group_by(lambda x: x, 1, when_full="backpressure")
        .take_within("1h")
        .merge_substreams()
        .run_with(Sink.to_list(), actor_system)
    )
    virtual_clock.advance("30m")
    assert not future.done()
    virtual_clock.advance("3h")
    assert future.result(0) == [0, 1, 2]


@pytest.mark.usefixtures("virtual_clock")
def test_a_slow_sink_starves_nobody(actor_system: ActorSystem, virtual_clock: Any) -> None:
    sink = of_endless(thirds, lambda sub: sub.merge_substreams()).to_mat(TestSink.probe(), Keep.right).run(actor_system)
    sink.request(1)
    virtual_clock.advance("1h")
    sink.expect_next(0)
    sink.expect_no_message("1s")
    sink.cancel()


# ── marks ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "stage", [SplitWhen(lambda x: x % 2 == 0), SplitAfter(lambda x: x % 2 == 1), GroupBy(lambda x: x // 2, 9)]
)
def test_a_mark_waits_for_substreams_that_are_not_read_yet(timeless: ActorSystem, stage: Any) -> None:
    with Bench(timeless, stage.around(Flow.map(lambda x: x).module, 1)) as bench:
        bench.send(0, 1, 2, 3)
        bench.mark()
        bench.request(1)
        assert bench.received == [0]
        assert bench.marks == []
        bench.complete()
        bench.request(2)
        assert bench.received == [0, 1, 2]
        assert bench.marks == []
        bench.request(2)
        assert bench.received == [0, 1, 2, 3]
        assert bench.marks == [4]
