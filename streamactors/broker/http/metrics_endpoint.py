"""Prometheus' /metrics of a broker, and a /ready probe.

A request for metrics waits for a sample from the data plane, so an answer also shows that the data plane is alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.helpers import call_on
from streamactors.broker.http.broker_metrics import sample
from streamactors.broker.http.door import HttpDoor
from streamactors.broker.http.endpoint import HttpEndpoint, Page

if TYPE_CHECKING:
    from streamactors.broker.node import Node

ANSWER_WITHIN_S: Final = 5.0


def serve_metrics_of(node: Node, door: HttpDoor) -> HttpEndpoint:
    """Serve the pages of a broker. Raises BrokerStartError if the address is not available."""
    registry = CollectorRegistry()
    registry.register(_Collector(node))

    @_in_time
    def metrics() -> Page:
        return Page(generate_latest(registry), CONTENT_TYPE_LATEST)

    @_in_time
    def ready() -> Page:
        call_on(node.data_plane, lambda: None, ANSWER_WITHIN_S)
        return Page(b"ready\n")

    try:
        return HttpEndpoint(door, {"/metrics": metrics, "/ready": ready, "/healthz": ready})
    except OSError as error:
        raise BrokerStartError(
            f"cannot serve metrics at {door.host}:{door.port}: {error.strerror or error}; choose another --metrics-port"
        ) from error


def _in_time(page: Callable[[], Page]) -> Callable[[], Page]:
    @wraps(page)
    def asked() -> Page:
        try:
            return page()
        except TimeoutError:
            return Page(b"the broker does not answer\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    return asked


class _Collector:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        for metric in call_on(self._node.data_plane, lambda: sample(self._node), ANSWER_WITHIN_S):
            family = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
            made = family(metric.name, metric.doc, labels=metric.labels)
            for labels, value in metric.samples:
                made.add_metric(labels, value)
            yield made

    def describe(self) -> list[Any]:
        return []  # otherwise the registry takes a sample at registration
