"""Prometheus' /metrics and /ready for a graph that runs: what its consumers know, its windows, and what passes its connections."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from streamactors.broker.startup import parse_address_of_metrics
from streamactors.errors import StreamActorsError
from streamactors.windows.prometheus import WindowCollector

if TYPE_CHECKING:
    from streamactors.cli.supervised import SupervisedRun

_PARTITION: Final = (
    ("buffered_records", "Records of the partition that wait for demand"),
    ("buffered_bytes", "Bytes of the partition that wait for demand"),
    ("paused", "1 while back-pressure has the partition paused"),
    ("position", "Offset of the next record to be delivered"),
    ("done", "Offset before which every record is done at every sink"),
    ("committed", "Offset that is committed"),
    ("in_flight", "Records that were delivered and are not done"),
)
_COUNTS: Final = (
    ("delivered", "Records given to the stream"),
    ("pauses", "Times a partition was paused by back-pressure"),
    ("resumes", "Times a partition was resumed"),
)


class MetricsNotServed(StreamActorsError):
    """The address cannot be had."""

    exit_code = 2


class RunCollector(Collector):
    """Asks the consumers of a run when it is scraped."""

    def __init__(self, running: SupervisedRun) -> None:
        self._running = running

    def collect(self) -> Iterator[Metric]:
        """The families of all consumers of the run."""
        snapshots = [(str(number), control.snapshot()) for number, control in enumerate(self._running.controls)]
        for name, doc in _PARTITION:
            gauge = GaugeMetricFamily(f"streamactors_consumer_{name}", doc, labels=("consumer", "partition"))
            for consumer, snapshot in snapshots:
                for partition, known in snapshot.get("partitions", {}).items():
                    if known.get(name) is not None:
                        gauge.add_metric((consumer, partition), float(known[name]))
            yield gauge
        for name, doc in _COUNTS:
            counter = CounterMetricFamily(f"streamactors_consumer_{name}", doc, labels=("consumer",))
            for consumer, snapshot in snapshots:
                if name in snapshot:
                    counter.add_metric((consumer,), snapshot[name])
            yield counter

    def describe(self) -> list[Metric]:
        """Return nothing: no snapshot may be asked for before the run has started."""
        return []


@contextmanager
def serve_metrics(address: str, running: SupervisedRun) -> Iterator[int]:
    """Serve while the block runs; give the port. Loopback unless a host is given. Raises MetricsNotServed."""
    host, port = parse_address_of_metrics(address)
    registry = CollectorRegistry()
    registry.register(RunCollector(running))
    registry.register(WindowCollector())

    class Handler(BaseHTTPRequestHandler):
        timeout = 10.0

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(HTTPStatus.OK, generate_latest(registry), CONTENT_TYPE_LATEST)
            elif path == "/ready":
                self._answer(HTTPStatus.OK, b"ready\n")
            else:
                self._answer(HTTPStatus.NOT_FOUND, b"there are /metrics and /ready\n")

        def _answer(self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Keep scrapes out of the log."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        where = f"{host}:{port}"
        raise MetricsNotServed(f"cannot serve metrics at {where}: {error.strerror}; choose another port") from None
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, args=(0.05,), name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
