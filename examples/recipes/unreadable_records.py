"""Records that cannot be read go to a dead-letter topic, and the stream continues. python examples/recipes/unreadable_records.py"""

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
    settings = ConsumerSettings(bootstrap, group_id="pieces", auto_offset_reset="earliest")
    orders = Consumer.records(
        settings, Subscriptions.topics("orders"), value=Order, dead_letters="orders-dead", until="end"
    )
    return orders.map(lambda order: order.value.pieces).to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("orders", "orders-dead"):
        cluster.create_topic(topic)
    values = [
        '{"item": "tea", "pieces": 2}',
        '{"item": "jam", "pieces": "many"}',
        "{",
        '{"item": "rye", "pieces": 1}',
    ]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(values).map(lambda value: ProducerRecord("orders", value)).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    print(done.result(30))
    control.is_shutdown.result(30)  # the dead letters are stored, and all offsets are committed
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    for letter in Consumer.plain_source(reading, Subscriptions.topics("orders-dead"), until="end").run_iter():
        headers = dict(letter.headers)
        print(headers["dead-letter.offset"], letter.value, headers["dead-letter.error"])


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
