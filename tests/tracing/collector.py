"""An OTLP collector of the tests: a small HTTP server that decodes what exporters send."""

from __future__ import annotations

import gzip
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Link:
    trace_id: bytes
    span_id: bytes


@dataclass(frozen=True)
class Received:
    """A span as the collector has received it."""

    name: str
    kind: str
    trace_id: bytes
    span_id: bytes
    parent: bytes
    links: tuple[Link, ...]
    attributes: dict[str, Any] = field(compare=False)
    events: tuple[str, ...]
    failed: bool
    service: str
    start_ns: int
    end_ns: int


class Collector:
    """A context manager; `spans` are those received so far."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self._lock = threading.Lock()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
                    ExportTraceServiceRequest,
                    ExportTraceServiceResponse,
                )

                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                assert self.path == "/v1/traces"
                assert self.headers["Content-Type"] == "application/x-protobuf"
                collector.take(ExportTraceServiceRequest.FromString(body))
                answer = ExportTraceServiceResponse().SerializeToString()
                self.send_response(200)
                self.send_header("Content-Type", "application/x-protobuf")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, request: Any) -> None:
        """Take the spans of a request."""
        for resource in request.resource_spans:
            of_resource = {each.key: each.value.string_value for each in resource.resource.attributes}
            for scope in resource.scope_spans:
                with self._lock:
                    self.spans += [_received(span, of_resource["service.name"]) for span in scope.spans]

    def __enter__(self) -> Collector:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


def _received(span: Any, service: str) -> Received:
    from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

    assert len(span.trace_id) == 16
    assert len(span.span_id) == 8
    assert 0 < span.start_time_unix_nano <= span.end_time_unix_nano
    return Received(
        span.name,
        Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"),
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        tuple(Link(link.trace_id, link.span_id) for link in span.links),
        {each.key: getattr(each.value, str(each.value.WhichOneof("value"))) for each in span.attributes},
        tuple(event.name for event in span.events),
        span.status.code == Status.StatusCode.STATUS_CODE_ERROR,
        service,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )
