"""The metrics of a system over OTLP, for those whose collector is OpenTelemetry's. Needs the extra `otel`; loaded when it is asked for.

The names are those of docs/metrics.md without `_total`, which Prometheus adds when it scrapes the collector. The SDK reads the OTEL_* variables:
OTEL_METRIC_EXPORT_INTERVAL (60,000 ms), OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME. Owner: the process; the SDK's thread collects."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from streamactors.errors import BuildError
from streamactors.metric_family import Family
from streamactors.metrics.graphs import FAMILIES as GRAPHS
from streamactors.metrics.queries import FAMILIES as QUERIES
from streamactors.metrics.windows import FAMILIES as WINDOWS

if TYPE_CHECKING:
    from prometheus_client.registry import Collector


SAME_MOMENT_S: Final = 1.0
"""The instruments that are read within this time of one another share one look at the graphs."""
FLUSH_MS: Final = 5_000
_UNITS: Final = {"seconds": "s", "bytes": "By", "ratio": "1"}


class Exporting:
    """Metrics that are exported until `shutdown`. A context manager."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider

    def shutdown(self) -> None:
        """Export once more, and end."""
        self._provider.shutdown(timeout_millis=FLUSH_MS)

    def __enter__(self) -> Exporting:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()


def export(graphs: Collector, endpoint: str | None, reader: Any, service_name: str | None) -> Exporting:
    """See `streamactors.metrics.export_metrics`."""
    from streamactors.metrics.kafka import FAMILIES as KAFKA

    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    except ImportError as error:
        raise BuildError("metrics over OTLP need opentelemetry: pip install 'streamactors[otel]'") from error
    if endpoint is not None:
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise BuildError(f"metrics go to an http or https URL, such as http://localhost:4318, got {endpoint!r}")
        endpoint = endpoint if parts.path.strip("/") else f"{endpoint.rstrip('/')}/v1/metrics"
    own = {} if service_name is None else {SERVICE_NAME: service_name}
    if "service.instance.id" not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        own["service.instance.id"] = f"{socket.gethostname()}-{os.getpid()}"  # members of a run are series of their own
    resource = Resource.create(own)
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: "streamactors"}))
    if reader is None:
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=endpoint))
    look = _Look(graphs)
    provider = MeterProvider([reader], resource)
    meter = provider.get_meter("streamactors")
    for family in (*GRAPHS, *KAFKA, *WINDOWS, *QUERIES):
        make = meter.create_observable_counter if family.kind == "counter" else meter.create_observable_gauge
        make(_name(family), callbacks=[_callback(look, family)], unit=_unit(family), description=family.meaning)
    return Exporting(provider)


class _Look:
    """One look at the graphs for all instruments of an export."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._lock = threading.Lock()
        self._at_s = 0.0
        self._found: Mapping[str, Any] = {}

    def __call__(self) -> Mapping[str, Any]:
        with self._lock:
            if not self._found or time.monotonic() - self._at_s > SAME_MOMENT_S:
                self._found = {family.name: family for family in self._collector.collect()}
                self._at_s = time.monotonic()
            return self._found


def _callback(look: _Look, family: Family) -> Callable[[Any], Iterable[Any]]:
    from opentelemetry.metrics import Observation

    name = _name(family)

    def observe(_: Any) -> Iterable[Any]:
        found = look().get(name)
        return [Observation(sample.value, dict(sample.labels)) for sample in found.samples] if found is not None else []

    return observe


def _name(family: Family) -> str:
    return family.name.removesuffix("_total")


def _unit(family: Family) -> str:
    return _UNITS.get(_name(family).rpartition("_")[2], "")
