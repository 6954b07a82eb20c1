"""Metrics of the graphs of an actor system: for Prometheus, and for OTLP with the extra `otel`. docs/metrics.md lists them.

`graphs.py` reads stages, `windows.py` event time and stores, `queries.py` Spark's queries, `kafka.py` the connector; the broker's are in
`broker/http/broker_metrics.py`. `registry.py` puts together what an endpoint shows, `otlp.py` exports it, `table.py` lists all metrics.
A metric is read when somebody asks for it; nothing runs between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from streamactors.actors.system import ActorSystem
    from streamactors.metrics.otlp import Exporting

__all__ = ["collector", "export_metrics"]


def collector(system: ActorSystem | None = None) -> Collector:
    """Return the collector of all graphs of a system, with their consumers, windows, stores and Spark queries: register it with prometheus_client, once.

    `system`: the default system if None."""
    from streamactors.metrics.registry import SystemCollector

    if system is None:
        from streamactors.actors.system import ActorSystem

        system = ActorSystem.default()
    return SystemCollector(system)


def export_metrics(
    system: ActorSystem | None = None,
    endpoint: str | None = None,
    *,
    reader: Any = None,
    service_name: str | None = None,
) -> Exporting:
    """Export the metrics of the graphs of a system over OTLP/HTTP from now on; return the handle that ends it. Needs the extra `otel`.

    `endpoint`: the URL of the collector, such as http://localhost:4318; None: what OTEL_EXPORTER_OTLP_ENDPOINT says. `reader`: an opentelemetry
    MetricReader to use instead. `service_name`: of the resource; None: OTEL_SERVICE_NAME, else "streamactors".

    Raises BuildError for a wrong URL, and without the extra."""
    from streamactors.metrics.otlp import export

    return export(collector(system), endpoint, reader, service_name)
