"""Metrics over OTLP: what a collector of the tests' own receives is what the endpoint shows."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from streamactors import ActorSystem, Sink, Source
from streamactors.errors import BuildError
from streamactors.metrics import export_metrics

pytest.importorskip("opentelemetry.sdk.metrics")


@pytest.fixture
def collector():
    """A collector; its `points` are {metric: {attributes: value}} of the newest export, `instance` the ids of what has exported."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            assert self.path == "/v1/metrics"
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                server.resources.append({each.key: each.value.string_value for each in resource.resource.attributes})
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        server.units[metric.name] = metric.unit
                        kind = metric.WhichOneof("data")
                        for point in getattr(metric, kind).data_points:
                            labels = tuple(sorted((each.key, each.value.string_value) for each in point.attributes))
                            server.points.setdefault(metric.name, {})[labels] = point.as_double or float(point.as_int)
                            server.kinds[metric.name] = kind
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.points, server.resources, server.units, server.kinds = {}, [], {}, {}
    server.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_collector_receives_the_metrics_of_the_graphs(collector):
    blocked, go = threading.Event(), threading.Event()
    seen = []

    def take(n):
        seen.append(n)
        if len(seen) == 50:
            blocked.set()
            go.wait(60)

    with ActorSystem("otlp") as system:
        done = Source.range(0, 50).map(str).named("orders").run_with(Sink.foreach(take), system)
        assert blocked.wait(60)
        export_metrics(system, collector.url, service_name="shop").shutdown()
        go.set()
        done.result(60)
    elements = collector.points["streamactors_stage_elements"]
    assert 50.0 in elements.values()
    assert collector.kinds["streamactors_stage_elements"] == "sum"
    assert collector.kinds["streamactors_stage_busy_ratio"] == "gauge"
    assert collector.units["streamactors_stage_busy_ratio"] == "1"
    assert len(collector.points["streamactors_graph_runs"]) == 1
    assert collector.resources[0]["service.name"] == "shop"
    assert collector.resources[0]["service.instance.id"]


def test_all_instruments_share_one_look_at_the_graphs(collector, monkeypatch):
    from streamactors.metrics.registry import SystemCollector

    looks = []
    collect = SystemCollector.collect
    monkeypatch.setattr(SystemCollector, "collect", lambda self: looks.append(1) or collect(self))
    with ActorSystem("once") as system:
        export_metrics(system, collector.url).shutdown()
    assert len(looks) == 1


@pytest.mark.parametrize("url", ["localhost:4318", "ftp://x", "http://"])
def test_a_wrong_url_is_an_error_that_names_it(url):
    with ActorSystem("wrong") as system, pytest.raises(BuildError, match="an http or https URL"):
        export_metrics(system, url)
