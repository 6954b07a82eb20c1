"""What is counted, under which of Kafka Streams' names."""

from __future__ import annotations

import math
import weakref
from typing import Any

import pytest

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import Record, SlidingWindows, TaskIdentity, TimeWindows
from streamactors.windows.metrics import Rate, Spread, TaskMetrics
from streamactors.windows.topology.chain import Records, tasks_of
from tests.windows.words import CLOSED, emitted, finals, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)


def samples(driver: Any, now_ms: float = 0) -> dict[str, float]:
    return {sample.name: sample.value for sample in driver.metrics.samples(now_ms)}


def test_M_1_dropped_records_counts_windows_keys_values_and_timestamps() -> None:
    driver = finals(TEN.advance_by(5))
    pipe_all(driver, [("a", 1, 100), ("a", 1, 88), (None, 1, 100), ("a", 1, -1)])
    assert (driver.dropped_late, driver.dropped_null, driver.dropped_negative) == (2, 1, 1)
    assert samples(driver)["dropped-records-total"] == 4


def test_M_1_group_and_tags_are_kafkas() -> None:
    (sample, *_) = finals(TEN).metrics.samples(0)
    assert (sample.name, sample.group, sample.tags) == (
        "dropped-records-total", "stream-task-metrics", (("task-id", "0_0"),),
    )  # fmt: skip


def test_M_1_rates_are_per_second_of_the_clock_they_are_asked_with() -> None:
    driver = finals(SlidingWindows.of_difference(5).with_grace(0))
    samples(driver, 0)
    pipe_all(driver, [("a", None, 1)] * 20)
    assert samples(driver, 10_000)["dropped-records-rate"] == 2.0


def test_M_2_suppression_emit_counts_what_is_given_out() -> None:
    for driver in (finals(TEN), _apart()):
        pipe_all(driver, [("a", 1, 1), ("b", 1, 1), ("z", 1, 10)])
        assert samples(driver)["suppression-emit-total"] == 2
        found = [sample for sample in driver.metrics.samples(0) if sample.name == "suppression-emit-total"]
        assert found[0].group == "stream-processor-node-metrics"
        assert ("processor-node-id", driver.metrics.suppressed[0].node) in found[0].tags


def _apart() -> WindowTestDriver:
    return WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(TEN).count().map_values(lambda n: n).suppress(CLOSED)
    )


def test_M_3_buffer_sizes_are_recorded_on_put_and_release_at_detail_only() -> None:
    stream = Records().group_by_key().windowed_by(TEN).count().suppress(CLOSED).to_stream()
    task = tasks_of(stream, detailed_metrics=True)()
    task.process_chunk([Record("a", 1, 1), Record("b", 1, 1)])  # holds 1, then 2 entries
    found = {sample.name: sample for sample in task.metrics.samples(0)}
    assert found["suppression-buffer-count-avg"].value == 1.5
    assert found["suppression-buffer-count-max"].value == 2
    assert found["suppression-buffer-size-max"].value == task.buffered.bytes
    assert found["suppression-buffer-size-max"].group == "stream-state-metrics"
    assert ("in-memory-suppression-state-id", "suppress-store-0000000003") in found["suppression-buffer-size-max"].tags
    task.process_chunk([Record("z", 1, 10)])  # 3, then 2 and 1
    assert {sample.name: sample.value for sample in task.metrics.samples(0)}["suppression-buffer-count-avg"] == 2

    coarse = finals(TEN)
    coarse.pipe("a", 1, 1)
    assert math.isnan(samples(coarse)["suppression-buffer-size-max"])


def test_M_3_restoring_records_what_was_restored() -> None:
    stream = Records().group_by_key().windowed_by(TEN).count().suppress(CLOSED).to_stream()
    factory = tasks_of(stream, detailed_metrics=True, changelog=True)
    first = factory(TaskIdentity("app"))
    first.process_chunk([Record("a", 1, 1), Record("b", 1, 1)])
    second = factory(TaskIdentity("app"))
    second.restore(first.changes())
    assert {sample.name: sample.value for sample in second.metrics.samples(0)}["suppression-buffer-count-max"] == 2


@pytest.mark.parametrize("windows", [TEN, SlidingWindows.of_difference(5).with_grace(0)])
def test_M_4_emitted_records_and_the_latency_of_emitting(windows: Any) -> None:
    driver = emitted(windows)
    pipe_all(driver, [("a", 1, 1), ("b", 1, 1), ("z", 1, 500)])
    found = samples(driver)
    assert found["emitted-records-total"] == 2
    assert found["emit-final-latency-max"] >= 0


def test_a_rate_looks_back_half_a_minute_to_a_minute() -> None:
    rate = Rate()
    assert rate.of(0, 0) == 0
    assert rate.of(100, 10_000) == 10
    assert rate.of(100, 60_000) == 0  # the hundred lie longer back
    assert rate.of(130, 90_000) == 1


def test_a_spread_starts_again_when_taken() -> None:
    spread = Spread()
    for value in (1, 2, 6):
        spread.record(value)
    assert spread.take() == (3, 6)
    assert all(math.isnan(value) for value in spread.take())


def test_prometheus_gets_the_tasks_of_graphs_under_kafkas_names() -> None:
    from prometheus_client import CollectorRegistry, generate_latest

    from streamactors.windows.prometheus import WindowCollector

    live: weakref.WeakSet[TaskMetrics] = weakref.WeakSet()
    collector = WindowCollector(live)
    stream = Records().group_by_key().windowed_by(TEN).count().suppress(CLOSED).to_stream()
    factory = tasks_of(stream, on_task=live.add)
    tasks = [factory(TaskIdentity("app", partition, 2)) for partition in (0, 1, 1)]
    for task in tasks:
        task.process_chunk([Record("a", 1, 1), Record("z", 1, 10), Record(None, 1, 10), Record("a", 1, 1)])
    registry = CollectorRegistry()
    registry.register(collector)
    text = generate_latest(registry).decode()
    dropped = "kafka_streams_stream_task_metrics_dropped_records_total"
    assert f'{dropped}{{task_id="0_0"}} 2.0' in text
    assert f'{dropped}{{task_id="0_1"}} 4.0' in text  # two tasks of the same labels are added up
    assert 'suppression_emit_total{processor_node_id="suppress-0000000002",task_id="0_0"} 1.0' in text
    assert "nan" not in text.lower()
    del task, tasks
    assert "0_1" not in generate_latest(registry).decode()  # a task that ended is forgotten
