"""Reads a topic again from a time, beside the group that reads it live. python examples/recipes/backfill.py"""

from datetime import UTC, datetime
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)

START = datetime(2026, 11, 1, tzinfo=UTC)


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(
        bootstrap, group_id="orders-again-from-november"
    )  # a new group for each backfill
    subscription = Subscriptions.topics("orders").starting_at(START)
    orders = Consumer.records(settings, subscription, key="string", value="string", until="end")
    return orders.map(lambda order: order.value).to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2)
    noon = [datetime(2026, month, day, 12, tzinfo=UTC) for month, day in ((10, 30), (10, 31), (11, 1), (11, 2))]
    orders = [
        ProducerRecord("orders", f"{time:%B %d}", partition=time.day % 2, timestamp=int(time.timestamp() * 1000))
        for time in noon
    ]
    Source.from_iterable(orders).run_with(
        Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    ).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    print(sorted(done.result(30)))
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
