"""Prometheus' /metrics and a /ready probe over HTTP.

Owner: a thread of its own. A request for metrics waits for a sample from the data plane, so an answer also shows that the data
plane is alive. Listens on loopback unless a host is given.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import CollectorRegistry

from streamactors.broker.broker_metrics import sample
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.helpers import call_on

if TYPE_CHECKING:
    from streamactors.broker.node import Node

ANSWER_WITHIN_S: Final = 5.0
CLIENT_TIMEOUT_S: Final = 10.0


class MetricsEndpoint:
    """Serves until it is closed. Raises BrokerStartError if the address is not available."""

    def __init__(self, node: Node, address: tuple[str, int]) -> None:
        registry = CollectorRegistry()
        registry.register(_Collector(node))
        try:
            self._server = _Server(address, node, registry)
        except OSError as error:
            host, port = address
            raise BrokerStartError(
                f"cannot serve metrics at {host}:{port}: {error.strerror or error}; choose another --metrics-port"
            ) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving and free the address."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], node: Node, registry: CollectorRegistry) -> None:
        self.node = node
        self.registry = registry
        super().__init__(address, _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CLIENT_TIMEOUT_S

    def do_HEAD(self) -> None:  # for probes that read only the status
        self.do_GET()

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        try:
            if path == "/metrics":
                self._answer(HTTPStatus.OK, generate_latest(self.server.registry), CONTENT_TYPE_LATEST)
            elif path in ("/ready", "/healthz"):
                call_on(self.server.node.data_plane, lambda: None, ANSWER_WITHIN_S)
                self._answer(HTTPStatus.OK, b"ready\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"not found; use /metrics or /ready\n")
        except TimeoutError:
            self._answer(HTTPStatus.SERVICE_UNAVAILABLE, b"the broker does not answer\n")

    def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Do not log scrapes."""


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
