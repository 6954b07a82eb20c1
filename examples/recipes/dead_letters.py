"""Records that are readable but wrong go to a topic, the others on. python examples/recipes/dead_letters.py"""

from typing import Any

from streamactors import Flow, Keep, RunnableGraph, Sink, Source
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


def check(order: Record) -> None:
    if order.value["pieces"] < 1:
        raise ValueError(f"{order.value['pieces']} pieces")


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings, writing = ConsumerSettings(bootstrap, "shop", "earliest"), ProducerSettings(bootstrap)
    wrong = Producer.dead_letter_sink(writing, "orders-wrong", key="string", value="json")
    large = Flow.map(lambda order: ProducerRecord("orders-large", order.value, order.key)).to(
        Producer.plain_sink(writing, key="string", value="json")
    )
    orders = Consumer.records(settings, Subscriptions.topics("orders"), key="string", value="json", until="end")
    checked: Source[Record, Any] = orders.validate(check, dead_letters=wrong).divert_if(
        lambda order: order.value["pieces"] > 99, large
    )
    return checked.map(lambda order: order.value).to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("orders", "orders-wrong", "orders-large"):
        cluster.create_topic(topic)
    orders = [ProducerRecord("orders", {"pieces": pieces}, f"order-{pieces}") for pieces in (2, -1, 500)]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(orders).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    print("handled:", done.result(30))
    control.is_shutdown.result(30)  # the other records are stored, and all offsets are committed
    reading = ConsumerSettings(cluster.bootstrap_servers, "reader", "earliest")
    for topic in ("orders-wrong", "orders-large"):
        for record in Consumer.plain_source(reading, Subscriptions.topics(topic), until="end").run_iter():
            print(topic, record.value, dict(record.headers).get("dead-letter.error"))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
