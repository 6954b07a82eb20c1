"""A Faust application as a graph: pieces of each item in a table. python examples/migrating/faust.py"""

from dataclasses import dataclass
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


@dataclass
class Order:
    item: str
    pieces: int


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="stock", auto_offset_reset="earliest")
    orders = Consumer.records(settings, Subscriptions.topics("orders"), value=Order, until="end")
    rows = orders.map(lambda order: order.replace(key=order.value.item, value=order.value.pieces))
    sold = rows.key_by(lambda row: row.key).aggregate(int, int.__add__, name="sold")
    return sold.to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2)
    orders = [
        ProducerRecord("orders", Order(item, pieces)) for item, pieces in [("tea", 2), ("jam", 1), ("tea", 5)]
    ]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), value=Order)
    Source.from_iterable(orders).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    latest = {row.key: row.value for row in done.result(60)}
    control.is_shutdown.result(30)
    print(sorted(latest.items()))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
