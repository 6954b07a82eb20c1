"""Traces: streams from Kafka without tracing, and the same streams where one record in a thousand is sampled by its producer, in turn.

The broker has its own process. CPU seconds are those of this process, in many short pairs, each of the two first in every other pair; the figures are
medians over the pairs. The exporter keeps nothing, so the rows measure this library and OpenTelemetry's SDK, not a network.
The share depends on the work per record: the copy decodes, changes and encodes JSON and writes it; the count does nothing. What one sampled record
costs is measured where one in 50 is sampled, because the cost of one in a thousand is lost in the noise. Its peer is the SDK alone: the four spans
of such a record, made and ended by the SDK in a loop."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

from benchmarks._rows import Row, row
from streamactors import ActorSystem, Keep, Sink, tracing
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    SendProducer,
    Subscriptions,
)

PAIRS = 20
SPANS = 2_000
VALUE = json.dumps(
    {"id": 1234567, "customer": "c-4711", "lines": [{"sku": f"sku-{n}", "n": n, "price": 9.99} for n in range(6)]}
).encode()


class Nothing:
    """A span exporter that keeps nothing."""

    def export(self, spans: Any) -> Any:
        from opentelemetry.sdk.trace.export import SpanExportResult

        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass

    def force_flush(self, timeout_millis: int = 0) -> bool:
        return True


def provider() -> Any:
    """Return a tracer provider whose spans are batched and dropped."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    made = TracerProvider(shutdown_on_exit=False)
    made.add_span_processor(BatchSpanProcessor(Nothing()))  # type: ignore[arg-type]
    return made


def fill(servers: str, topic: str, records: int, every: int) -> None:
    """Write the records; each `every`-th has a sampled context, as a tracing producer would send it."""
    with SendProducer(ProducerSettings(servers, properties={"linger.ms": 20})) as producer:
        for n in range(records):
            headers = [("traceparent", b"00-%032x-%016x-01" % (n + 1, n + 1))] if every and n % every == 0 else None
            producer.send(ProducerRecord(topic, VALUE, None, 0, None, headers))


def source(servers: str, topic: str) -> Any:
    """Return a source with a group of its own, which commits."""
    settings = ConsumerSettings(servers, f"g-{time.monotonic_ns()}", auto_offset_reset="earliest")
    return Consumer.source(settings, Subscriptions.topics(topic), until="end")


def count(system: ActorSystem, servers: str, topic: str) -> None:
    """Two stages that do nothing, an async boundary, and a count."""
    records = source(servers, topic).map(lambda record: record.value).filter(len).async_boundary()
    finish(records.to_mat(Sink.count(), Keep.both), system)


def changed(record: Any) -> ProducerRecord:
    order = json.loads(record.value)
    order["total"] = sum(line["n"] * line["price"] for line in order["lines"])
    return ProducerRecord("copied", json.dumps(order).encode())


def copy(system: ActorSystem, servers: str, topic: str) -> None:
    """Decode, change and encode JSON, and write it."""
    finish(
        source(servers, topic).map(changed).to_mat(Producer.plain_sink(ProducerSettings(servers)), Keep.both), system
    )


def light_copy(system: ActorSystem, servers: str, topic: str) -> None:
    """Write the values as they are: so little work that the cost of a sampled record shows."""
    copied = source(servers, topic).map(lambda record: ProducerRecord("copied", record.value))
    finish(copied.to_mat(Producer.plain_sink(ProducerSettings(servers)), Keep.both), system)


def finish(graph: Any, system: ActorSystem) -> None:
    control, done = graph.run(system)
    done.result(timeout=120)
    control.is_shutdown.result(timeout=120)


def seconds(fn: Callable[[], object]) -> float:
    """Return the CPU seconds of this process for a call."""
    began = time.process_time()
    fn()
    return time.process_time() - began


def compared(
    stream: Callable[[ActorSystem, str, str], None], system: ActorSystem, servers: str, topic: str
) -> tuple[list[float], list[float]]:
    """Return the CPU seconds without tracing and with it, in pairs."""
    plain: list[float] = []
    traced: list[float] = []
    stream(system, servers, topic)  # warm
    for turn in range(PAIRS):
        for without in (turn % 2, 1 - turn % 2):  # none of the two is always first
            if without:
                plain.append(seconds(lambda: stream(system, servers, topic)))
            else:
                with tracing.install(provider=provider(), ratio=0.0):
                    traced.append(seconds(lambda: stream(system, servers, topic)))
    return plain, traced


def spans_alone() -> float:
    """Return the CPU seconds of the four spans of one record, made by the SDK alone."""
    from opentelemetry.trace import SpanKind

    made = provider()
    tracer = made.get_tracer("benchmark")
    attributes = {f"messaging.attribute.{n}": "a value" for n in range(7)}

    def spans() -> None:
        for _ in range(SPANS):
            for kind in (SpanKind.PRODUCER, SpanKind.CLIENT, SpanKind.CONSUMER, SpanKind.CLIENT):
                tracer.start_span("send orders", None, kind, attributes).end()

    took = seconds(spans) / SPANS
    made.shutdown()
    return took


STREAMS = (
    ("JSON copy: no record sampled", copy, 20_000, 0),
    ("JSON copy: 1 in 1,000 sampled", copy, 20_000, 1_000),
    ("copy: a sampled record", light_copy, 20_000, 50),
    ("count: no record sampled", count, 200_000, 0),
    ("count: 1 in 1,000 sampled", count, 200_000, 1_000),
    ("count: a sampled record", count, 20_000, 50),
)
"""Name, stream, records, and of how many records one is sampled."""


def measured(title: str, records: int, every: int, plain: list[float], traced: list[float]) -> Row:
    """Return the row of one comparison."""
    if every == 50:
        alone = spans_alone()
        extra = [(b - a) / (records // every) for a, b in zip(plain, traced, strict=True)]
        peer = f"its four spans by the SDK alone ({alone * 1e6:.0f} µs)"
        ratios = [one / alone for one in extra]
        return row(title, statistics.median(extra) * 1e6, "µs more CPU", peer, ratios, "< 200 µs")
    ratios = [b / a for a, b in zip(plain, traced, strict=True)]
    peer = f"not installed ({statistics.median(plain) / records * 1e6:.1f} µs a record)"
    target = "< 2 %" if "JSON" in title else "no target"
    return row(title, statistics.median(ratios) * 100 - 100, "% more CPU", peer, ratios, target)


def run(only: str = "") -> list[Row]:
    """Measure in pairs; the value is how much more CPU the traced stream takes, the ratio is traced over plain, or the cost of a sampled record over that of its spans."""
    rows = []
    with Cluster(process=True) as cluster, ActorSystem("tracing") as system:
        servers = cluster.bootstrap_servers
        cluster.create_topic("copied")
        for name, stream, records, every in STREAMS:
            if only not in f"Kafka {name}":
                continue
            topic = f"{stream.__name__}-{every}"
            cluster.create_topic(topic)
            fill(servers, topic, records, every)
            plain, traced = compared(stream, system, servers, topic)
            rows.append(measured(f"Kafka {name}", records, every, plain, traced))
            print("  " + " | ".join(map(str, rows[-1].values())), flush=True)
    return rows
