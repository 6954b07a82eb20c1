"""A source with windows is a topology of one input: everything that groups and tables of a topology can do, and values that may be branched."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from streamactors import Flow, Sink, Source
from streamactors.errors import BuildError
from streamactors.testing import TopologyDriver, WindowTestDriver
from streamactors.windows import (
    CountWindows,
    InvalidRecord,
    Record,
    RecordContext,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.operators.suppress_buffer import SuppressBuffer
from streamactors.windows.stage.partition_tasks import PartitionTasks
from streamactors.windows.topology.chain import Records, tasks_of
from tests.windows.words import CLOSED, W, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)
ROWS = [Record("ab"[n % 2], n, n) for n in range(8)]
READY: dict[str, tuple[Callable[[Any], Any], list[Any]]] = {
    "min": (lambda grouped: grouped.min(), [0, 1]),
    "max": (lambda grouped: grouped.max(), [6, 7]),
    "mean": (lambda grouped: grouped.mean(), [3.0, 4.0]),
    "first": (lambda grouped: grouped.first(), [0, 1]),
    "last": (lambda grouped: grouped.last(), [6, 7]),
    "top": (lambda grouped: grouped.top(2, of=lambda value: -value), [[0, -2], [-1, -3]]),
}


def values(results: list[Any]) -> list[Any]:
    newest = {row.key: row.value for row in results}
    return [newest[key] for key in sorted(newest)]


@pytest.mark.parametrize("ready", READY)
def test_a_source_has_the_ready_aggregates_of_a_topology(ready: str) -> None:
    aggregate, expected = READY[ready]
    source = Source.from_iterable(ROWS)
    assert values(aggregate(source.group_by_key()).to_stream().run_with(Sink.to_list()).result(30)) == expected
    finals = aggregate(source.group_by_key().windowed_by(TEN)).suppress(CLOSED).to_stream()
    assert values(finals.run_with(Sink.to_list()).result(30)) == expected


def test_windows_of_n_rows_work_on_any_source_and_flow() -> None:
    counted = Source.from_iterable(ROWS).group_by_key().windowed_by(CountWindows.of_size(3))
    found = counted.reduce(lambda a, b: a + b).map(lambda row: row.value)  # a Source again
    assert found.run_with(Sink.to_list()).result(30) == [0 + 2 + 4, 1 + 3 + 5]
    flow = Flow.of(Record).key_by(lambda row: "all").windowed_by(CountWindows.of_size(4)).count()
    assert Source.from_iterable(ROWS).via(flow).run_with(Sink.to_list()).result(30) == [
        Record("all", 4, 3),
        Record("all", 4, 7),
    ]


def test_what_is_no_record_is_refused_by_windows_of_n_rows_too() -> None:
    rows = Source.single(1).group_by_key().windowed_by(CountWindows.of_size(3)).count()
    with pytest.raises(InvalidRecord, match="map your elements to Record first"):
        rows.run_with(Sink.to_list()).result(30)


def test_each_part_of_a_chain_is_a_value_that_may_be_continued_in_several_ways() -> None:
    seen: list[Any] = []

    def build(records: Any) -> Any:
        grouped = records.group_by_key().windowed_by(TEN)
        counts = grouped.count()
        seen.extend([counts.emit_on_window_close(), counts.suppress(CLOSED), grouped.count(name="n"), grouped.min()])
        return counts

    driver = WindowTestDriver(build)
    assert driver.pipe("a", 1, 1) == [W("a", 0, 10, 1, 1)]  # an update: counts themselves do not emit on close
    assert {change.store for change in driver.changes()} == {"count-store-0000000001"}
    names = [list(table.topology.stores) for table in seen]
    assert names == [
        ["count-store-0000000001"],
        ["count-store-0000000001", "suppress-store-0000000003"],
        ["n-store"],
        ["aggregate-store-0000000001"],
    ]


def test_the_aggregation_of_a_chain_holds_what_a_suppression_behind_it_would_hold() -> None:
    factory = tasks_of(Records().group_by_key().windowed_by(TEN).count().suppress(CLOSED).to_stream())
    assert factory().stores == ("count-store-0000000001",)
    operators = [factory().operator(node) for node in factory.topology.nodes]
    assert not any(isinstance(operator, SuppressBuffer) for operator in operators)


def test_a_chain_that_a_worker_gets_has_no_part_of_this_process() -> None:
    def of_this_process(*_: Any) -> None:
        """No pickle can carry a function that is defined in another."""

    counts = Records(of_this_process).group_by_key().windowed_by(TEN, late=of_this_process).count()
    chain = pickle.loads(pickle.dumps(counts.topology))
    assert chain.late is None
    assert list(chain.stores) == ["count-store-0000000001"]


def test_a_table_of_a_chain_is_grouped_by_another_key_in_one_partition_only() -> None:
    def sizes(records: Any) -> Any:
        table = records.to_table().group_by(lambda key, value: (value, 1))
        return table.reduce(lambda a, b: a + b, lambda a, b: a - b).to_stream()

    driver = WindowTestDriver(sizes)
    rows = [("a", "x", 1), ("b", "x", 2), ("a", "y", 3)]
    assert [(row.key, row.value) for row in pipe_all(driver, rows)] == [("x", 1), ("x", 2), ("x", 1), ("y", 1)]
    tasks = PartitionTasks(tasks_of(sizes(Records())))
    tasks.process_into([Record("a", "x", 1, RecordContext("t", 0, 0))], [])
    with pytest.raises(InvalidRecord, match="several partitions"):
        tasks.process_into([Record("b", "x", 1, RecordContext("t", 1, 0))], [])


def test_an_idle_timeout_may_be_given_to_the_windows_of_a_topology() -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("s").group_by_key().windowed_by(TEN, idle_after="1s").count().suppress(CLOSED)
    )
    driver.pipe("s", "a", 1, 5)
    assert [each.record.value for each in driver.advance_wall_clock("2s")] == [1]
    with pytest.raises(BuildError, match="one idle timeout"):
        TopologyDriver(
            lambda topics: topics.stream("s").group_by_key().windowed_by(TEN, idle_after="1s").count(), idle_after="2s"
        )


def test_the_end_of_the_input_closes_windows_that_a_filter_is_in_front_of() -> None:
    # `suppress` behind a filter: what the end has flushed as final stays closed when the task goes on from its changelog
    def build(topics: Any) -> Any:
        counts = topics.stream("s").group_by_key().windowed_by(TEN).count(name="n")
        return counts.filter(lambda value: True).suppress(CLOSED.with_name("held"))

    driver = TopologyDriver(build, identity=TaskIdentity("ends"))
    driver.pipe("s", "a", 1, 5)
    assert [each.record.value for each in driver.end_of_input()] == [1]
    driver.restart(driver.changes())
    driver.pipe("s", "a", 1, 6)
    assert driver.metrics.dropped_late == 1
