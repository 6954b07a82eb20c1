"""Two tables, joined by a field of the rows of one. python examples/recipes/foreign_key_join.py"""

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
        ConsumerSettings(bootstrap, group_id="priced", auto_offset_reset="earliest"),
        producer=ProducerSettings(bootstrap, transactional_id="priced-0"),  # one id for each instance
    )
    carts = topics.table("carts", value="json", name="carts")  # keys are customers
    prices = topics.table("prices", value="json", name="prices")  # keys are items; another number of partitions
    priced = carts.join_foreign_key(
        prices,
        lambda customer, cart: cart["item"],
        lambda cart, price: {**cart, "cost": price * cart["pieces"]},
        name="priced",
    )
    priced.to("priced", value="json")
    return topics.graph()


def main(cluster: Cluster) -> None:
    for topic, partitions in {"carts": 2, "prices": 3, "priced": 1}.items():
        cluster.create_topic(topic, partitions)
    rows = [
        ("prices", "tea", 3),
        ("carts", "anna", {"item": "tea", "pieces": 2}),
        ("carts", "bob", {"item": "tea", "pieces": 5}),
    ]
    writing = ProducerSettings(cluster.bootstrap_servers)

    def write(*records: tuple[str, str, Any]) -> None:
        source = Source.from_iterable([ProducerRecord(topic, value, key) for topic, key, value in records])
        source.run_with(Producer.plain_sink(writing, key="string", value="json")).result(30)

    write(*rows)
    control = graph(cluster.bootstrap_servers).run()
    settings = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    results = Consumer.records(settings, Subscriptions.topics("priced"), key="string", value="json")
    latest: dict[Any, Any] = {}
    for row in results.run_iter():
        latest[row.key] = row.value["cost"]
        if latest == {"anna": 6, "bob": 15}:
            print(sorted(latest.items()))
            write(("prices", "tea", 4))  # every cart with tea changes
        elif latest == {"anna": 8, "bob": 20}:
            break
    print(sorted(latest.items()))
    control.drain_and_shutdown(timeout=30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
