"""A consumer loop as a graph: read, call, write, commit. python examples/migrating/consumer_loop.py"""

import json
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
from streamactors.windows import Record


def priced(order: Record) -> ProducerRecord:
    return ProducerRecord("priced", {**order.value, "price": 3 * order.value["pieces"]}, order.key)


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="pricing", auto_offset_reset="earliest")
    orders = Consumer.records(
        settings,
        Subscriptions.topics("orders"),
        key="string",
        value="json",
        dead_letters="orders-dead",
        until="end",
    )
    writer = Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json")
    return orders.map_async(8, priced).to_mat(writer, Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("orders", "priced", "orders-dead"):
        cluster.create_topic(topic)
    values = [json.dumps({"pieces": 2}), "no JSON", json.dumps({"pieces": 1})]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(values).map(lambda each: ProducerRecord("orders", each, "anna")).run_with(
        writer
    ).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    done.result(30)
    control.is_shutdown.result(30)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    results = Consumer.records(reading, Subscriptions.topics("priced"), value="json", until="end")
    print(results.map(lambda record: record.value).run_with(Sink.to_list()).result(30))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
