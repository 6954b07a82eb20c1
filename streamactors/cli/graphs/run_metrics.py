"""Prometheus' /metrics and /ready for a running graph: its consumers, its windows, and the elements that pass its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from streamactors.broker.http.door import HttpDoor
from streamactors.broker.http.endpoint import HttpEndpoint, Page
from streamactors.engine.snapshot import snapshots
from streamactors.engine.stalls.diagnosis import Cause
from streamactors.engine.stalls.watchdog import WATCHDOGS
from streamactors.errors import StreamActorsError
from streamactors.kafka.prometheus import COLLECTOR, COUNTS, PARTITION, RESTARTS
from streamactors.windows.prometheus import WindowCollector

if TYPE_CHECKING:
    from streamactors.cli.graphs.supervised import SupervisedRun


class MetricsNotServed(StreamActorsError):
    """The address of the metrics cannot be bound."""

    exit_code = 2


class RunCollector(Collector):
    """Asks the consumers of a run when it is scraped."""

    def __init__(self, running: SupervisedRun) -> None:
        self._running = running

    def collect(self) -> Iterator[Metric]:
        """The families of all consumers of the run."""
        snapshots = [(str(number), control.snapshot()) for number, control in enumerate(self._running.controls)]
        for name, doc in PARTITION:
            gauge = GaugeMetricFamily(f"streamactors_consumer_{name}", doc, labels=("consumer", "partition"))
            for consumer, snapshot in snapshots:
                for partition, known in snapshot.get("partitions", {}).items():
                    if known.get(name) is not None:
                        gauge.add_metric((consumer, partition), float(known[name]))
            yield gauge
        for name, doc in (*COUNTS, RESTARTS):
            counter = CounterMetricFamily(f"streamactors_consumer_{name}", doc, labels=("consumer",))
            for consumer, snapshot in snapshots:
                if name in snapshot:
                    counter.add_metric((consumer,), snapshot[name])
            yield counter
        yield from self._stages()

    def _stages(self) -> Iterator[Metric]:
        """Which stage takes the time, how full the connections are, and which streams stand still."""
        busy = GaugeMetricFamily(
            "streamactors_stage_busy_share", "Share of the working time of the graph", labels=("run", "stage")
        )
        ready = GaugeMetricFamily(
            "streamactors_stage_ready_elements", "Elements that wait before the stage", labels=("run", "stage")
        )
        for run, shot in enumerate(snapshots(self._running.system)):
            for stage in shot.stages:
                label = (str(run), f"{stage.id} {stage.name}")
                busy.add_metric(label, stage.busy)
                ready.add_metric(label, float(sum(c.ready for c in shot.connections if c.target == stage.id)))
        stalled = GaugeMetricFamily("streamactors_stalled_streams", "Streams that stand still now", labels=("cause",))
        found = [stall for dog in list(WATCHDOGS) for stall in dog.stalled.values()]
        for cause in Cause:
            stalled.add_metric((cause.name.lower(),), float(sum(stall.cause is cause for stall in found)))
        yield from (busy, ready, stalled)

    def describe(self) -> list[Metric]:
        """Return nothing: no snapshot may be asked for before the run has started."""
        return []


def registry_of(running: SupervisedRun) -> CollectorRegistry:
    """Return the metrics of a run."""
    registry = CollectorRegistry()
    registry.register(RunCollector(running))
    registry.register(COLLECTOR)
    registry.register(WindowCollector())
    return registry


@contextmanager
def serve_metrics(door: HttpDoor, registry: CollectorRegistry) -> Iterator[int]:
    """Serve while the block runs; give the port. Raises MetricsNotServed."""
    try:
        endpoint = HttpEndpoint(
            door,
            {
                "/metrics": lambda: Page(generate_latest(registry), CONTENT_TYPE_LATEST),
                "/ready": lambda: Page(b"ready\n"),
            },
        )
    except OSError as error:
        where = f"{door.host}:{door.port}"
        raise MetricsNotServed(f"cannot serve metrics at {where}: {error.strerror}; choose another port") from None
    try:
        yield endpoint.port
    finally:
        endpoint.close()
