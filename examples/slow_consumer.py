"""A slow consumer: watch its partitions being paused and resumed, and memory staying flat. python examples/slow_consumer.py"""

from __future__ import annotations

import sys
import time
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Control,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)

BUFFER = 256 << 10


def graph(bootstrap: str = "localhost:9092", seconds_per_record: float = 0.0002) -> RunnableGraph[Any]:
    """Read `readings`, slowly. A partition is paused when its buffer has been full for 10 ms."""
    settings = ConsumerSettings(
        bootstrap,
        group_id="slow",
        auto_offset_reset="earliest",
        high_bytes=BUFFER,
        low_bytes=BUFFER // 2,
        pause_dwell_ms=10,
        max_poll_records=1_000,
    )

    def work(record: ConsumerRecord) -> ConsumerRecord:
        time.sleep(seconds_per_record)
        return record

    return (
        Consumer.source(settings, Subscriptions.topics("readings"), until="end")
        .map(work)
        .to_mat(Sink.count(), Keep.both)
    )


def picture(snapshot: dict[str, Any]) -> str:
    """Return one line: how full each partition's buffer is, and whether it is paused."""
    parts = []
    for name, partition in sorted(snapshot.get("partitions", {}).items()):
        filled = min(10, partition["buffered_bytes"] * 10 // BUFFER)
        state = "PAUSED" if partition["paused"] else "      "
        parts.append(f"{name} [{'#' * filled}{' ' * (10 - filled)}] {state} at {partition['position'] or 0:5}")
    return "   ".join(parts)


def main(records: int = 20_000, seconds_per_record: float = 0.0002) -> None:
    """Fill the topic, and look at the consumer while it works."""
    with Cluster() as cluster:
        cluster.create_topic("readings", partitions=2)
        readings = Source.range(0, records).map(
            lambda n: ProducerRecord("readings", b"." * 1_000, partition=n % 2)
        )
        readings.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(timeout=60)

        control: Control
        control, done = graph(cluster.bootstrap_servers, seconds_per_record).run()
        pauses = 0
        while not done.done():
            snapshot = control.snapshot()
            if snapshot.get("partitions"):
                pauses = snapshot["pauses"]
                print(picture(snapshot), flush=True)
            time.sleep(0.2)
        print(
            f"{done.result():,} records, {pauses} pauses, never more than {BUFFER >> 10} KiB and one poll per partition"
        )
        control.is_shutdown.result(timeout=60)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
