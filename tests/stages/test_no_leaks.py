"""Thousands of runs of each operator leave no run, thread or object behind."""

from __future__ import annotations

import gc
import logging
import threading

import pytest

from streamactors import (
    ActorSystem,
    BroadcastHub,
    Flow,
    Keep,
    MergeHub,
    PartitionHub,
    RestartSettings,
    RetryFlow,
    Sink,
    Source,
)
from streamactors.engine.island.run import runs_of
from tests.own_process import own_process

FLOWS = {
    "group_by": lambda: Flow.group_by(lambda x: x, 9).fold(0, lambda n, x: n + x).merge_substreams(),
    "split_when": lambda: Flow.split_when(lambda x: x == 1).concat_substreams(),
    "prefix_and_tail": lambda: Flow.prefix_and_tail(1).flat_map_concat(lambda pair: pair[1]),
    "flat_map_prefix": lambda: Flow.flat_map_prefix(1, lambda _: Flow.map(str)),
    "switch_map": lambda: Flow.switch_map(Source.single),
    "flatten_merge": lambda: Flow.map(Source.single).flatten_merge(2),
    "lazy_flow": lambda: Flow.lazy_flow(lambda: Flow.map(str)),
    "from_materializer": lambda: Flow.from_materializer(lambda system, attributes: Flow.map(str)),
    "coupled": lambda: Flow.from_sink_and_source_coupled(Sink.ignore(), Source.range(3)),
    "retry": lambda: RetryFlow.with_backoff(RestartSettings("1ms", "1ms"), Flow.map(str), lambda x, y: None),
    "grouped_weighted_within": lambda: Flow.grouped_weighted_within(9, "1s", lambda x: 1),
    "aggregate_with_boundary": lambda: Flow.aggregate_with_boundary(list, lambda xs, x: ([*xs, x], False), len),
    "delay_with": lambda: Flow.delay_with(lambda: lambda x: 0),
    "sample": lambda: Flow.sample("1s"),
    "debounce": lambda: Flow.debounce("1s"),
    "distinct": lambda: Flow.distinct(),
    "quantiles": lambda: Flow.quantiles([0.5]),
    "meter": lambda: Flow.meter(),
    "monitor": lambda: Flow.monitor(),
    "optional_via": lambda: Flow.optional_via(Flow.map(str)),
    "map_async_partitioned_unordered": lambda: Flow.map_async_partitioned_unordered(2, lambda x: x, str),
}


def runs_of_flow(flow):
    graph = Source.range(3).via(flow).to_mat(Sink.count(), Keep.right)
    return lambda system: graph.run(system).result(10)


def merge_hub(system):
    sink, done = MergeHub.source().take(3).to_mat(Sink.count(), Keep.both).run(system)
    Source.range(3).run_with(sink, system).result(10)
    done.result(10)


def broadcast_hub(system):
    Source.range(3).run_with(BroadcastHub.sink(), system).run_with(Sink.count(), system).result(10)


def partition_hub(system):
    hub = PartitionHub.sink(lambda size, x: x % size)
    Source.range(3).run_with(hub, system).run_with(Sink.count(), system).result(10)


def pre_materialized(system):
    done, sink = Sink.count().pre_materialize(system)
    Source.range(3).to(sink).run(system)
    done.result(10)


def cancelled_in_the_middle(system):
    flow = Flow.group_by(lambda x: x % 3, 3).merge_substreams().take(2)
    Source.range(1_000).via(flow).run_with(Sink.count(), system).result(10)


CASES = {name: runs_of_flow(make()) for name, make in FLOWS.items()} | {
    each.__name__: each for each in (merge_hub, broadcast_hub, partition_hub, pre_materialized, cancelled_in_the_middle)
}


@pytest.fixture(autouse=True)
def silence():
    """What clients of earlier tests still log would be counted: pytest keeps each line."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def check(name, times):
    with ActorSystem(f"leaks of {name}") as system:
        run = CASES[name]
        for _ in range(50):
            run(system)
        before, threads = settled(system), threading.active_count()
        for _ in range(times):
            run(system)
        assert settled(system) - before < 400, f"{name} leaves objects behind"
        assert threading.active_count() <= threads + 4, f"{name}: the pool may grow, by a few"


def settled(system):
    """Wait until every run has ended; return the number of objects."""
    wait = threading.Event()
    for _ in range(500):
        if not runs_of(system):
            break
        wait.wait(0.01)
    assert not runs_of(system), "runs are left behind"
    gc.collect()
    return len(gc.get_objects())


@own_process
@pytest.mark.timeout(400)  # 20 s on a quiet machine
def test_hundreds_of_runs_of_each_leave_nothing_behind():
    for name in CASES:
        check(name, 150)


@pytest.mark.slow
@own_process
@pytest.mark.parametrize("name", CASES)
def test_ten_thousand_runs_leave_nothing_behind(name):
    check(name, 10_000)
