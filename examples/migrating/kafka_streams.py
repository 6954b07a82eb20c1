"""A Kafka Streams topology: orders joined with a table, counted by city. python examples/migrating/kafka_streams.py"""

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
from streamactors.windows import State


def graph(bootstrap: str) -> Any:
    topics = Consumer.topics(
        ConsumerSettings(bootstrap, group_id="by-city", auto_offset_reset="earliest"),
        producer=ProducerSettings(
            bootstrap, transactional_id="by-city-0"
        ),  # exactly once; one id for each instance
        state=State.in_memory(),  # State.on_disk("./state") for RocksDB
        semantics="kafka",
        until="end",
    )
    customers = topics.table("customers", value="json", name="customers")
    orders = topics.stream("orders", value="json")
    placed = orders.join_table(customers, lambda order, customer: customer["city"])
    placed.group_by(lambda record: record.value).count(name="orders-by-city").to("by-city", value="json")
    return topics.graph()


def main(cluster: Cluster) -> None:
    for topic in ("customers", "orders", "by-city"):
        cluster.create_topic(topic, partitions=2)
    rows: list[tuple[str, str, Any]] = [
        ("customers", "anna", {"city": "Oslo"}),
        ("customers", "bob", {"city": "Bergen"}),
        *(("orders", name, {"item": "tea"}) for name in ("anna", "bob", "anna")),
    ]
    records = [ProducerRecord(topic, value, key, timestamp=n + 1) for n, (topic, key, value) in enumerate(rows)]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(records).run_with(writer).result(30)

    graph(cluster.bootstrap_servers).run().completion.result(60)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    counts = Consumer.records(reading, Subscriptions.topics("by-city"), key="string", value="json", until="end")
    print(sorted({count.key: count.value for count in counts.run_iter()}.items()))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
