"""Exactly-once copy: the copier crashes twice, and the copy has every record once. python examples/exactly_once_copy.py"""

from __future__ import annotations

from collections import Counter

from streamactors import Keep, RunnableGraph, Sink, Source, StreamFuture
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerRecord,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)

RECORDS = 20_000


def graph(bootstrap: str = "localhost:9092", dies_at: int | None = None) -> RunnableGraph[StreamFuture[None]]:
    """Copy `orders` to `copy`, records and read positions in one transaction. The record `dies_at` raises."""

    def copy(record: ConsumerRecord) -> ProducerRecord:
        if dies_at is not None and int(record.value or b"") == dies_at:
            raise RuntimeError(f"killed at order {dies_at}")
        return ProducerRecord("copy", record.value, record.key)

    consumer = ConsumerSettings(bootstrap, group_id="copy", auto_offset_reset="earliest")
    producer = ProducerSettings(bootstrap, transactional_id="copy", commit_interval_ms=20)
    return (
        Transactional.source(consumer, Subscriptions.topics("orders"), until="end")
        .map(copy)
        .to_mat(Transactional.sink(producer), Keep.right)
    )


def main() -> None:
    """Copy with two deaths on the way; count what is in the copy."""
    with Cluster() as cluster:
        bootstrap = cluster.bootstrap_servers
        for topic in ("orders", "copy"):
            cluster.create_topic(
                topic, partitions=1
            )  # so that each death is met: another partition might be done
        orders = Source.range(0, RECORDS).map(lambda n: ProducerRecord("orders", str(n), str(n)))
        orders.run_with(Producer.plain_sink(ProducerSettings(bootstrap))).result(timeout=60)

        for dies_at in (RECORDS // 3, RECORDS // 2, None):
            error = graph(bootstrap, dies_at).run().exception(timeout=60)
            print("copied to the end" if error is None else f"the copier died: {error}")

        settings = ConsumerSettings(
            bootstrap,
            group_id="count",
            auto_offset_reset="earliest",
            properties={"isolation.level": "read_committed"},
        )
        copied = (
            Consumer.plain_source(settings, Subscriptions.topics("copy"), until="end")
            .map(lambda record: int(record.value))
            .run_with(Sink.to_list())
            .result(timeout=60)
        )
        twice = sum(count > 1 for count in Counter(copied).values())
        print(
            f"{RECORDS:,} orders, {len(copied):,} in the copy: {RECORDS - len(set(copied))} missing, {twice} twice"
        )


if __name__ == "__main__":
    main()
