"""Prometheus' /metrics of a broker, and its probes /live and /ready.

A request for metrics waits for a sample from the data plane, so an answer also shows that the data plane is alive."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.helpers import call_on
from streamactors.broker.http.broker_metrics import sample
from streamactors.broker.http.endpoint import HttpEndpoint, Page, Status
from streamactors.broker.http.endpoint_address import MetricsEndpoint

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from streamactors.broker.node import Node
    from streamactors.broker.telemetry.pushed_metrics import PushedFamily

ANSWER_WITHIN_S: Final = 5.0


def serve_metrics_of(node: Node, endpoint: MetricsEndpoint) -> HttpEndpoint:
    """Serve the pages of a broker. Raises BrokerStartError if the address is not available."""
    registry = CollectorRegistry()
    registry.register(_Collector(node))

    def metrics() -> Page:
        try:
            return Page(generate_latest(registry), CONTENT_TYPE_LATEST)
        except TimeoutError:
            return Page(b"the broker does not answer\n", status=HTTPStatus.SERVICE_UNAVAILABLE)

    def ready() -> Status:
        try:
            call_on(node.data_plane, lambda: None, ANSWER_WITHIN_S)
        except TimeoutError:
            return Status(False, "not ready", (f"the data plane has not answered for {ANSWER_WITHIN_S:g} s",))
        return Status(True, "ready")

    try:
        return HttpEndpoint(
            endpoint,
            {"/metrics": metrics},
            {"/live": lambda: Status(True, "live"), "/ready": ready, "/healthz": ready},
        )
    except OSError as error:
        raise BrokerStartError(
            f"cannot serve metrics at {endpoint.host}:{endpoint.port}: {error.strerror or error}; choose another --metrics-port"
        ) from error


def _of_clients(pushed: PushedFamily) -> Metric:
    from prometheus_client.core import Metric

    made = Metric(pushed.name, f"{pushed.original}, pushed by clients", "counter" if pushed.counter else "gauge")
    sample_name = f"{pushed.name}_total" if pushed.counter else pushed.name
    for labels, value in pushed.samples:
        made.add_sample(sample_name, labels, value)
    return made


class _Collector:
    def __init__(self, node: Node) -> None:
        self._node = node

    def collect(self) -> Iterator[Metric]:
        for family, samples in call_on(self._node.data_plane, lambda: sample(self._node), ANSWER_WITHIN_S):
            yield family.metric(samples)
        for pushed in call_on(self._node.data_plane, lambda: list(self._node.telemetry.families()), ANSWER_WITHIN_S):
            yield _of_clients(pushed)

    def describe(self) -> list[Metric]:
        return []  # otherwise the registry takes a sample at registration
