"""Orders with the customer's row of a table that another topic fills. python examples/recipes/enrich_from_table.py"""

from typing import Any

from streamactors import Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def graph(bootstrap: str) -> Any:
    topics = Consumer.topics(
        ConsumerSettings(bootstrap, group_id="known-orders", auto_offset_reset="earliest"),
        producer=ProducerSettings(bootstrap, transactional_id="known-orders-0"),  # one id for each instance
        until="end",
    )
    customers = topics.table("customers", value="json", name="customers")
    orders = topics.stream("orders", value="json")
    known = orders.join_table(customers, lambda order, customer: {**order, "city": customer["city"]})
    known.to("known-orders", value="json")
    return topics.graph()


def main(cluster: Cluster) -> None:
    for topic in ("customers", "orders", "known-orders"):
        cluster.create_topic(topic, partitions=2)  # topics that are joined have equal numbers of partitions
    rows: list[tuple[str, str, Any, int]] = [
        ("customers", "anna", {"city": "Oslo"}, 1_000),
        ("orders", "anna", {"item": "tea"}, 2_000),
        ("customers", "anna", {"city": "Bergen"}, 3_000),
        ("orders", "anna", {"item": "jam"}, 4_000),
        ("orders", "bob", {"item": "rye"}, 5_000),  # no table row for bob: how="left" would keep it
    ]
    records = [ProducerRecord(topic, value, key, timestamp=time) for topic, key, value, time in rows]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(records).run_with(writer).result(30)

    graph(cluster.bootstrap_servers).run().completion.result(60)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    known = Consumer.records(
        reading, Subscriptions.topics("known-orders"), key="string", value="json", until="end"
    )
    for order in known.run_iter():
        print(order.key, order.value)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
