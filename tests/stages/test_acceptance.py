"""Acceptance cases of back-pressure, buffers, batches, asynchronous calls and throttling, one test per sentence."""

from __future__ import annotations

import asyncio
import operator
import threading
from typing import Any

import pytest

from streamactors import Flow, Keep
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NonFailureCancellation
from streamactors.engine.materializing.materializer import materialize
from streamactors.engine.supervision import resuming
from streamactors.errors import BufferOverflow, RateExceeded
from streamactors.stages.asynchronous.map_async import MapAsync
from streamactors.stages.asynchronous.partitioned import MapAsyncPartitioned
from streamactors.stages.fold.fold import Scan
from streamactors.stages.limit.counting import Drop, Limit
from streamactors.stages.limit.predicates import TakeWhile
from streamactors.stages.rate.buffer import Buffer
from streamactors.stages.rate.conflate import Batch, Conflate, ConflateWithSeed
from streamactors.stages.rate.throttle import Throttle
from streamactors.stages.sinks.values import ToList
from streamactors.stages.sources.iterables import Range
from streamactors.stages.transform.mapping import Filter, Map
from streamactors.stages.transform.zip_with_index import ZipWithIndex
from streamactors.stages.watching.observing import Log, WatchTermination
from streamactors.testing import TestSink, TestSource
from tests.engine.graphs import chain
from tests.stages.harness import Bench


@pytest.mark.expects_log("[x] failed: RuntimeError")
@pytest.mark.parametrize("k", [1, 3, 100])
def test_a_sink_that_requests_k_through_a_fused_chain_has_the_source_asked_for_exactly_k(timeless, k):
    middle = chain(
        Map(lambda x: x),
        Filter(lambda _: True),
        Limit(1_000),
        ZipWithIndex(),
        Map(lambda p: p[0]),
        Log("x"),
        WatchTermination(),
    )
    with Bench(timeless, middle) as bench:
        bench.request(k)
        assert bench.source.peak == min(k, 16), "no further ahead of user functions than is known to be quick"
        bench.send(*range(2 * k))
        assert bench.received == list(range(k))
        assert bench.source.peak == k, "never more"


@pytest.mark.parametrize(
    ("strategy", "kept"),
    [
        ("drop_head", [*range(101, 201)]),
        ("drop_tail", [*range(1, 100), 200]),
        ("drop_buffer", [*range(101, 201)]),
        ("drop_new", [*range(1, 101)]),
    ],
)
def test_a_buffer_of_100_that_was_sent_200_without_demand_has_kept(timeless, strategy, kept):
    with Bench(timeless, Buffer(100, strategy)) as bench:
        bench.send(*range(1, 201))
        bench.request(200)
        assert bench.received == kept


def test_a_buffer_told_to_fail_overflows_and_cancels_upstream(timeless):
    with Bench(timeless, Buffer(100, "fail")) as bench:
        bench.send(*range(100))
        assert bench.end is None
        bench.send(100)
        assert isinstance(bench.end, BufferOverflow)
        assert bench.cancelled is bench.end
        assert bench.received == []


def test_a_buffer_drains_on_completion_and_drops_on_failure(timeless):
    with Bench(timeless, Buffer(10)) as bench:
        bench.send(1, 2, 3)
        bench.complete()
        assert bench.end is None
        bench.request(10)
        assert (bench.received, bench.end) == ([1, 2, 3], "completed")
    with Bench(timeless, Buffer(10)) as bench:
        bench.send(1, 2, 3)
        bench.fail(error := ValueError("upstream"))
        bench.request(10)
        assert (bench.received, bench.end) == ([], error)


def test_conflate_of_1_to_100_while_silent_gives_5050_for_one_request(timeless):
    with Bench(timeless, Conflate(lambda a, b: a + b)) as bench:
        for x in range(1, 101):
            bench.send(x)
        bench.request(1)
        assert bench.received == [5050]


@pytest.mark.parametrize(
    "combining",
    [
        Flow.conflate(operator.add),
        Flow.conflate_with_seed(str, operator.add),
        Flow.batch(9, str, operator.add),
        Flow.batch_weighted(9, len, str, operator.add),
    ],
)
def test_what_is_combined_goes_before_an_element_that_comes_together_with_the_demand(actor_system, combining):
    reached, go_on = threading.Event(), threading.Event()

    def wait_at_b(x: str) -> str:
        if x == "b":
            reached.set()
            assert go_on.wait(30)
        return x

    graph = TestSource.probe("30s").map(wait_at_b).via(combining).to_mat(TestSink.probe("30s"), Keep.both)
    source, sink = graph.run(actor_system)
    sink.ensure_subscription()
    source.send_next("a").send_next("b")  # "a" is combined before there is demand for "b"
    assert reached.wait(30)
    sink.request(1)  # the stage sees "b" and this together
    go_on.set()
    sink.expect_next("ab")
    source.send_complete()
    sink.expect_complete()


def test_batch_of_10_back_pressures_the_11th(timeless):
    with Bench(timeless, Batch(10, lambda x: [x], lambda acc, x: [*acc, x])) as bench:
        bench.send(*range(25))
        assert bench.source.pushed == 11, "ten are in the batch, one waits in front of it"
        bench.request(1)
        assert bench.received == [list(range(10))]
        bench.request(2)
        bench.complete()
        assert [x for batch in bench.received for x in batch] == list(
            range(len([x for b in bench.received for x in b]))
        )


@pytest.mark.parametrize(
    "stage",
    [
        Buffer(10, "drop_head"),
        Buffer(1, "drop_new"),
        Buffer(3, "fail"),
        Conflate(lambda a, b: pytest.fail("nothing is to be combined")),
        ConflateWithSeed(lambda x: x, lambda a, b: pytest.fail("nothing is to be combined")),
    ],
)
def test_a_consumer_in_the_same_island_that_is_as_fast_loses_nothing(timeless, stage):
    n = 20_000
    graph = chain(Range(0, n), Map(lambda x: x), stage, Map(lambda x: x), ToList())
    assert materialize(graph, timeless).result(10) == list(range(n))


class Gate:
    """Calls that end when the test says so; counts those that have begun."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.events: dict[int, asyncio.Event] = {}
        self.errors: dict[int, Exception] = {}
        self.loop: Any = None

    async def __call__(self, x: int) -> int:
        self.loop = asyncio.get_running_loop()
        self.begun.append(x)
        self.events[x] = asyncio.Event()
        await self.events[x].wait()
        if x in self.errors:
            raise self.errors[x]
        return x

    def end(self, bench: Bench, x: int, error: Exception | None = None) -> None:
        if error is not None:
            self.errors[x] = error
        self.loop.call_soon_threadsafe(self.events[x].set)
        for _ in range(200):
            bench.settle()
            if self.events[x].is_set():
                break
        bench.settle()


def test_map_async_starts_no_more_than_4_and_keeps_the_order_of_futures_that_end_reversed(timeless):
    gate = Gate()
    with Bench(timeless, MapAsync(4, gate)) as bench:
        bench.request(10)
        bench.send(*range(5))
        assert gate.begun == [0, 1, 2, 3]
        for x in (3, 2, 1):
            gate.end(bench, x)
            assert bench.received == []
            assert gate.begun == [0, 1, 2, 3], "results that wait count too"
        gate.end(bench, 0)
        assert bench.received == [0, 1, 2, 3]
        assert gate.begun == [0, 1, 2, 3, 4]
        gate.end(bench, 4)
        bench.complete()
        assert bench.received == [0, 1, 2, 3, 4]
        assert bench.end == "completed"


def test_map_async_fails_at_once_when_one_fails_while_an_earlier_one_is_pending(timeless):
    gate = Gate()
    with Bench(timeless, MapAsync(5, gate)) as bench:
        bench.request(10)
        bench.send(1, 2, 3, 4, 5)
        gate.end(bench, 3, error := ValueError("3"))
        assert bench.end is error
        assert bench.received == []
        assert "element 3" in error.__notes__[0]
        assert bench.cancelled is error


@pytest.mark.expects_log("skipped: ")
def test_map_async_with_resume_skips_the_one_that_failed(timeless):
    gate = Gate()
    with Bench(timeless, MapAsync(5, gate), Attributes(decider=resuming)) as bench:
        bench.request(10)
        bench.send(1, 2, 3, 4, 5)
        gate.end(bench, 3, ValueError("3"))
        for x in (1, 2, 4, 5):
            gate.end(bench, x)
        bench.complete()
        assert bench.received == [1, 2, 4, 5]
        assert bench.end == "completed"


def test_map_async_partitioned_never_overlaps_one_key_runs_different_keys_and_keeps_the_order(timeless):
    gate = Gate()
    with Bench(timeless, MapAsyncPartitioned(4, lambda x: x % 2, gate)) as bench:
        bench.request(10)
        bench.send(0, 2, 1, 3)
        assert gate.begun == [0, 1], "one per key"
        gate.end(bench, 1)
        assert gate.begun == [0, 1, 3]
        assert bench.received == []
        gate.end(bench, 0)
        assert gate.begun == [0, 1, 3, 2]
        assert bench.received == [0]
        gate.end(bench, 3)
        gate.end(bench, 2)
        assert bench.received == [0, 2, 1, 3]


def test_plain_functions_of_map_async_run_side_by_side(timeless):
    meeting = threading.Barrier(4)

    def meet(x: int) -> int:
        meeting.wait(10)
        return x

    graph = chain(Range(0, 8), MapAsync(4, meet), ToList())
    assert materialize(graph, timeless).result(20) == list(range(8))


def test_throttle_of_one_per_200_ms_lets_one_through_per_200_ms(timeless):
    with Bench(timeless, Throttle(1, "200ms")) as bench:
        bench.request(10)
        bench.send(1, 2, 3, 4)
        arrived = []
        for _ in range(7):
            arrived.append(len(bench.received))
            bench.advance("100ms")
        assert arrived == [1, 1, 2, 2, 3, 3, 4]
        bench.advance("199ms")
        bench.send(5)
        assert len(bench.received) == 5, "200 ms after the one before, at once"
        bench.complete()
        assert bench.end == "completed"


def test_throttle_in_enforcing_mode_fails_with_rate_exceeded(timeless):
    with Bench(timeless, Throttle(1, "200ms", mode="enforcing")) as bench:
        bench.request(10)
        bench.send(1)
        bench.advance("200ms")
        bench.send(2)
        bench.advance("100ms")
        bench.send(3)
        assert bench.received == [1, 2]
        assert isinstance(bench.end, RateExceeded)
        assert "1 per 200 ms" in str(bench.end)


def test_an_hour_of_throttling_takes_no_time(timeless):
    started = timeless.clock.now_ms()
    done = materialize(chain(Range(0, 3_600), Throttle(1, "1s"), ToList()), timeless)
    timeless.clock.advance("1h")
    assert done.result(30) == list(range(3_600))
    assert timeless.clock.now_ms() - started == 3_600_000


def test_take_while_and_drop_and_scan_in_a_row_ask_for_what_they_need(timeless):
    middle = chain(Drop(2), Scan(0, lambda a, b: a + b), TakeWhile(lambda x: x < 10))
    with Bench(timeless, middle) as bench:
        bench.request(3)
        bench.send(*range(20))
        assert bench.received == [0, 2, 5]
        bench.request(3)
        assert bench.received == [0, 2, 5, 9]
        assert bench.end == "completed"
        assert isinstance(bench.cancelled, NonFailureCancellation)
