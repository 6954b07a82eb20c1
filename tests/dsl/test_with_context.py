"""Contexts travel beside elements past functions that know nothing of them."""

from __future__ import annotations

import asyncio
import concurrent.futures

import pytest

from streamactors import Flow, FlowWithContext, Keep, Sink, Source
from streamactors.engine.supervision import resuming
from streamactors.errors import BuildError


def pairs(system, source):
    return source.run_with(Sink.to_list(), system).result(30)


def numbered(*elements):
    """Elements with their index as context."""
    return Source.from_iterable(list(enumerate(elements))).with_context(lambda p: p[0]).map(lambda p: p[1])


def test_functions_see_the_element_and_the_context_stays_beside_it(actor_system):
    source = numbered("a", "bb", None, "ccc").filter(None).map(len).map_context(lambda i: i * 10)
    assert pairs(actor_system, source) == [(1, 0), (2, 10), (3, 30)]
    assert pairs(actor_system, numbered(0, 1, 2).filter_not(None)) == [(0, 0)]
    assert pairs(actor_system, numbered(0, 1, 2, 3).filter(lambda x: x % 2)) == [(1, 1), (3, 3)]


def test_what_stems_from_one_element_has_its_context(actor_system):
    assert pairs(actor_system, numbered(2, 0, 3).map_concat(range)) == [(0, 0), (1, 0), (0, 2), (1, 2), (2, 2)]
    assert pairs(actor_system, numbered(*"abc").grouped(2)) == [(["a", "b"], [0, 1]), (["c"], [2])]
    assert pairs(actor_system, numbered(*"abc").sliding(2)) == [(["a", "b"], [0, 1]), (["b", "c"], [1, 2])]


def test_calls_keep_the_order_and_the_contexts(actor_system):
    async def slow_first(x):
        for _ in range(3 - x):
            await asyncio.sleep(0)
        return x * 10

    expected = [(0, 0), (10, 1), (20, 2)]
    assert pairs(actor_system, numbered(0, 1, 2).map_async(3, slow_first)) == expected
    assert pairs(actor_system, numbered(0, 1, 2).map_async(3, lambda x: x * 10)) == expected
    assert pairs(actor_system, numbered(0, 1, 2).map_async(3, lambda x: slow_first(x))) == expected
    with concurrent.futures.ThreadPoolExecutor() as pool:
        assert pairs(actor_system, numbered(0, 1, 2).map_async(3, lambda x: pool.submit(lambda: x * 10))) == expected
    by_key = numbered(0, 1, 2).map_async_partitioned(3, lambda x: x % 2, slow_first)
    assert pairs(actor_system, by_key) == expected


def test_flows_with_context_go_behind_sources_with_context(actor_system):
    flow = FlowWithContext.of(int, int).map(lambda x: x + 1).filter(lambda x: x > 1).map_context(str)
    assert pairs(actor_system, numbered(0, 1, 2).via(flow)) == [(2, "1"), (3, "2")]
    assert pairs(actor_system, Source.from_iterable([(1, "c")]).via(flow.map_context(len).as_flow())) == [(2, 1)]
    of_pairs = FlowWithContext.from_pairs(Flow.map(lambda pair: (-pair[0], pair[1])))
    assert pairs(actor_system, numbered(1, 2).via(of_pairs).async_boundary()) == [(-1, 0), (-2, 1)]


def test_a_plain_flow_becomes_one_with_context(actor_system):
    flow = Flow.map(lambda request: {**request, "answer": request["question"] * 2})
    with_context = flow.with_context(
        lambda element, context: {"question": element, "id": context}, lambda result: result["id"]
    ).map(lambda result: result["answer"])
    assert pairs(actor_system, numbered(5, 6).via(with_context)) == [(10, 0), (12, 1)]


def test_its_ends(actor_system):
    source = numbered(1, 2)
    ends = []
    other = Sink.to_list().map_materialized_value(ends.append)
    left = source.also_to(other).to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert left[1].result(30) == [(1, 0), (2, 1)]
    assert ends[0].result(30) == [(1, 0), (2, 1)]
    assert source.as_source().map(list).run_with(Sink.to_list(), actor_system).result(30) == [[1, 0], [2, 1]]
    assert source.to(Sink.ignore()).run(actor_system) is not None
    with pytest.raises(KeyError):
        pairs(actor_system, source.map(lambda x: 1 // 0).map_error(lambda e: KeyError(str(e))))


@pytest.mark.expects_log("skipped: ")
def test_supervision_drops_the_element_with_its_context(actor_system):
    source = numbered(1, 0, 2).map(lambda x: 4 // x).with_attributes(decider=resuming)
    assert pairs(actor_system, source) == [(4, 0), (2, 2)]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Source.range(3).with_context(5), "with_context expects a function, got int 5"),
        (lambda: numbered(1).map(5), "map expects a function"),
        (lambda: numbered(1).map(asyncio.sleep), "use map_async"),
        (lambda: numbered(1).filter(5), "filter expects a function"),
        (lambda: numbered(1).via(Sink.ignore()), "via expects a Flow, got a Sink"),
        (lambda: Flow.identity().with_context(5, len), "with_context: collapse expects a function"),
    ],
)
def test_mistakes_are_errors_at_their_line(make, message):
    with pytest.raises(BuildError, match=message):
        make()


def test_unordered_calls_keep_each_context_with_its_element(actor_system):
    expected = [(x * 10, x) for x in range(9)]
    for source in (
        numbered(*range(9)).map_async_unordered(4, lambda x: x * 10),
        numbered(*range(9)).map_async_partitioned_unordered(4, lambda x: x % 2, lambda x: x * 10),
    ):
        assert sorted(pairs(actor_system, source)) == expected


def test_collect_throttle_and_log_see_the_element_alone(actor_system, caplog):
    assert pairs(actor_system, numbered(1, "b", 3).collect(str, when=int)) == [("1", 0), ("3", 2)]
    assert pairs(actor_system, numbered(1, None, 3).collect(lambda x: x)) == [(1, 0), (3, 2)]
    assert len(pairs(actor_system, numbered("a", "bb").throttle(1_000, cost=len))) == 2
    caplog.set_level("DEBUG", logger="streamactors.stream")
    pairs(actor_system, numbered("a").log("seen"))
    assert "[seen] element: a" in caplog.text


def test_side_sinks_get_pairs_or_contexts_alone(actor_system):
    seen = {name: [] for name in ("also", "all", "context", "tap", "tapped context", "diverted")}
    source = (
        numbered(*"abc")
        .also_to(Sink.foreach(seen["also"].append))
        .also_to(Sink.foreach(seen["all"].append), Sink.ignore())
        .also_to_context(Sink.foreach(seen["context"].append))
        .wire_tap(Sink.foreach(seen["tap"].append))
        .wire_tap_context(Sink.foreach(seen["tapped context"].append))
        .divert_to(Sink.foreach(seen["diverted"].append), lambda x: x == "b")
    )
    assert pairs(actor_system, source) == [("a", 0), ("c", 2)]
    assert seen["also"] == seen["all"] == [("a", 0), ("b", 1), ("c", 2)]
    assert seen["context"] == [0, 1, 2]
    assert seen["diverted"] == [("b", 1)]
    assert set(seen["tap"]) <= {("a", 0), ("b", 1), ("c", 2)}
    assert set(seen["tapped context"]) <= {0, 1, 2}


def test_a_plain_flow_runs_beside_the_contexts(actor_system):
    assert pairs(actor_system, numbered(1, 2).unsafe_data_via(Flow.map(lambda x: x * 10))) == [(10, 0), (20, 1)]
    optional = numbered(1, None, 2).unsafe_optional_data_via(Flow.map(lambda x: x * 10))
    assert sorted(pairs(actor_system, optional), key=lambda pair: pair[1]) == [(10, 0), (None, 1), (20, 2)]


def test_materialized_values_of_flows_with_context(actor_system):
    flow = FlowWithContext.identity().map(str).map_materialized_value(lambda _: 7)
    value, result = numbered(1).via_mat(flow, Keep.right).to_mat(Sink.to_list(), Keep.both).run(actor_system)
    assert value == 7
    assert result.result(30) == [("1", 0)]
