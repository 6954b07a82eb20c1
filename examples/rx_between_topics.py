"""RxPY between Kafka and Kafka: alarms from temperatures, at least once, with back-pressure. python examples/rx_between_topics.py"""

from __future__ import annotations

import json
import math
from typing import Any

import reactivex.operators as rx

from streamactors import Flow, Keep, RunnableGraph, Sink, Source, StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)

HOT = 80.0


def graph(bootstrap: str = "localhost:9092") -> RunnableGraph[StreamFuture[None]]:
    """Write to `alarms` whenever the temperature crosses the threshold.

    An offset of `temperatures` is committed when the alarm that came of it is stored, though Rx operators lie between."""
    settings = ConsumerSettings(bootstrap, group_id="alarms", auto_offset_reset="earliest")
    alarms = Flow.rx(
        rx.map(judged),
        rx.distinct_until_changed(is_hot),
        rx.skip(1),  # the first state is no change
    )
    return (
        Consumer.source(settings, Subscriptions.topics("temperatures"), until="end")
        .via(alarms)
        .map(lambda reading: ProducerRecord("alarms", json.dumps(reading)))
        .to_mat(Producer.plain_sink(ProducerSettings(bootstrap)), Keep.right)
    )


def judged(record: ConsumerRecord) -> dict[str, Any]:
    """Return a reading, and whether it is too hot."""
    reading: dict[str, Any] = json.loads(record.value)
    return {**reading, "hot": reading["celsius"] >= HOT}


def is_hot(reading: dict[str, Any]) -> bool:
    """Return what `judged` found."""
    return bool(reading["hot"])


def reading(minute: int) -> dict[str, float]:
    """Return what a machine measures: a wave of an hour."""
    return {"minute": minute, "celsius": round(70 + 20 * math.sin(minute / 60 * 2 * math.pi), 1)}


def main() -> None:
    """Measure for three hours, then print the alarms."""
    with Cluster() as cluster:
        bootstrap = cluster.bootstrap_servers
        for topic in ("temperatures", "alarms"):
            cluster.create_topic(topic)
        measured = Source.range(0, 180).map(
            lambda minute: ProducerRecord("temperatures", json.dumps(reading(minute)))
        )
        measured.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(timeout=30)

        graph(bootstrap).run().result(timeout=60)

        reader = ConsumerSettings(bootstrap, group_id="reader", auto_offset_reset="earliest")
        alarms = Consumer.plain_source(reader, Subscriptions.topics("alarms"), until="end")
        for alarm in (
            alarms.map(lambda record: json.loads(record.value)).run_with(Sink.to_list()).result(timeout=30)
        ):
            print(
                f"minute {alarm['minute']:3}: {alarm['celsius']} degrees, {'too hot' if alarm['hot'] else 'fine again'}"
            )


if __name__ == "__main__":
    main()
