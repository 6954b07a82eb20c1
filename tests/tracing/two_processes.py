"""A program of the tests: copies numbers of one topic into another, with a stage in a worker process, and exports its spans.

python two_processes.py BOOTSTRAP FROM TO COLLECTOR"""

from __future__ import annotations

import sys
from typing import Any

from streamactors import Flow, Keep, tracing
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions


def value(record: Any) -> bytes:
    found: bytes = record.value
    return found


def doubled(number: bytes) -> bytes:
    """In the worker process: a span of the user's, under that of the record."""
    from opentelemetry import trace

    with trace.get_tracer("user").start_as_current_span("double"):
        return str(int(number) * 2).encode()


def main(bootstrap: str, topic: str, to: str, collector: str) -> None:
    import reactivex.operators as rx

    with tracing.install(f"otlp:{collector}", stages=True, service_name="copy"):
        settings = ConsumerSettings(bootstrap, group_id="copy", auto_offset_reset="earliest")
        graph = (
            Consumer.source(settings, Subscriptions.topics(topic), until="end")
            .map(value)
            .async_boundary(process=True)
            .map(doubled)
            .async_boundary()
            .via(Flow.rx(rx.map(lambda number: number), rx.filter(lambda number: True)))
            .map(lambda number: ProducerRecord(to, number))
            .to_mat(Producer.plain_sink(ProducerSettings(bootstrap)), Keep.both)
        )
        control, done = graph.run()
        done.result(timeout=60)
        control.is_shutdown.result(timeout=60)


if __name__ == "__main__":
    main(*sys.argv[1:])
