"""Metrics of the consumers of this process for Prometheus: register COLLECTOR where the process registers its metrics.

Labels: `graph` (the name of the graph, or of its source), `group`, `topic`, `partition`. Owner: the process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streamactors.kafka.control import RUNNING, Control

PARTITION: Final = (
    ("buffered_records", "Records of the partition that wait for demand"),
    ("buffered_bytes", "Bytes of the partition that wait for demand"),
    ("paused", "1 while back-pressure has the partition paused"),
    ("position", "Offset of the next record to be delivered"),
    ("done", "Offset before which every record is done at every sink"),
    ("committed", "Offset that is committed"),
    ("in_flight", "Records that were delivered and are not done"),
    ("lag", "Records of the partition that are not delivered yet"),
)
COUNTS: Final = (
    ("delivered", "Records given to the stream"),
    ("pauses", "Times a partition was paused by back-pressure"),
    ("resumes", "Times a partition was resumed"),
)
RESTARTS: Final = ("restarts", "Times the stream was aborted and has begun again in its process, as after a freeze")
ANSWER_S: Final = 2.0
"""How long a scrape waits for one consumer; a consumer that does not answer is left out."""


class ConsumerCollector(Collector):
    """Asks the running consumers when it is scraped; costs nothing between."""

    def __init__(self, controls: Iterable[Control] = RUNNING) -> None:
        self._controls = controls

    def collect(self) -> Iterator[Metric]:
        """The families of all running consumers."""
        controls = list(self._controls)
        snapshots = [found for control in controls if (found := _snapshot(control)) is not None]
        for name, doc in PARTITION:
            gauge = GaugeMetricFamily(
                f"streamactors_kafka_{name}", doc, labels=("graph", "group", "topic", "partition")
            )
            for labels, snapshot in snapshots:
                for key, known in snapshot["partitions"].items():
                    if known[name] is not None:
                        topic, _, number = key.rpartition("-")
                        gauge.add_metric((*labels, topic, number), float(known[name]))
            yield gauge
        for name, doc in COUNTS:
            counter = CounterMetricFamily(f"streamactors_kafka_{name}", doc, labels=("graph", "group"))
            for labels, value in _sums((labels, snapshot[name]) for labels, snapshot in snapshots):
                counter.add_metric(labels, value)
            yield counter
        name, doc = RESTARTS
        counter = CounterMetricFamily(f"streamactors_kafka_{name}", doc, labels=("graph", "group"))
        for labels, value in _sums(((control.graph, control.group), control.restarts) for control in controls):
            counter.add_metric(labels, value)
        yield counter

    def describe(self) -> list[Metric]:
        """Return nothing: registering asks no consumer."""
        return []


def _snapshot(control: Control) -> tuple[tuple[str, str], dict[str, Any]] | None:
    try:
        return (control.graph, control.group), control.snapshot(ANSWER_S)
    except TimeoutError:
        return None


def _sums(found: Iterable[tuple[tuple[str, str], int]]) -> Iterable[tuple[tuple[str, str], int]]:
    """Add up the counts of consumers with the same labels: two sources of one graph."""
    sums: dict[tuple[str, str], int] = {}
    for labels, count in found:
        sums[labels] = sums.get(labels, 0) + count
    return sums.items()


COLLECTOR: Final = ConsumerCollector()
