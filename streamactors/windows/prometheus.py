"""Window metrics for Prometheus, under the names kafka_streams_<group>_<metric>, made from Kafka Streams' names.

Owner: the process, which registers COLLECTOR once: `prometheus_client.REGISTRY.register(COLLECTOR)`. COLLECTOR reads all
live tasks of all graphs. Of tasks with the same labels (two graphs with a partition 0 each) it adds totals and rates,
averages averages and takes the largest maximum."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamactors.windows.metrics import LIVE_TASKS, TaskMetrics


class WindowCollector(Collector):
    """Reads the metrics of the tasks at each scrape."""

    def __init__(self, tasks: Iterable[TaskMetrics] = LIVE_TASKS) -> None:
        self._tasks = tasks

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families of all tasks."""
        now_ms = time.monotonic() * 1000
        samples = [sample for task in list(self._tasks) for sample in task.samples(now_ms)]
        by_name: dict[tuple[str, str], dict[tuple[tuple[str, str], ...], list[float]]] = {}
        for sample in samples:
            if not math.isnan(sample.value):
                by_name.setdefault((sample.group, sample.name), {}).setdefault(sample.tags, []).append(sample.value)
        for (group, name), found in sorted(by_name.items()):
            yield _family(group, name, found)


def _family(group: str, name: str, found: dict[tuple[tuple[str, str], ...], list[float]]) -> Metric:
    labels = [_identifier(key) for key, _ in next(iter(found))]
    full = f"kafka_streams_{_identifier(group)}_{_identifier(name)}"
    text = f"{name} of {group}, as Kafka Streams counts it"
    family: CounterMetricFamily | GaugeMetricFamily
    if name.endswith("-total"):
        family = CounterMetricFamily(full.removesuffix("_total"), text, labels=labels)
    else:
        family = GaugeMetricFamily(full, text, labels=labels)
    for tags, values in sorted(found.items()):
        family.add_metric([value for _, value in tags], _together(name, values))
    return family


def _together(name: str, values: Iterable[float]) -> float:
    if name.endswith("-max"):
        return max(values)
    listed = list(values)
    return sum(listed) / len(listed) if name.endswith("-avg") else sum(listed)


def _identifier(name: str) -> str:
    return name.replace("-", "_")


COLLECTOR: Final = WindowCollector()
