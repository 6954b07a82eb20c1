"""A table forgets customers who were not heard of for a day. python examples/recipes/ttl.py"""

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

HOUR = 3_600_000


def graph(bootstrap: str) -> Any:
    topics = Consumer.topics(
        ConsumerSettings(bootstrap, group_id="active", auto_offset_reset="earliest"),
        producer=ProducerSettings(bootstrap, transactional_id="active-0"),  # one id for each instance
        until="end",
    )
    topics.table("visits", value="json", ttl="1d", name="active").to("active", value="json")
    return topics.graph()


def main(cluster: Cluster) -> None:
    for topic in ("visits", "active"):
        cluster.create_topic(topic)
    visits = [("anna", 0), ("bob", 20 * HOUR), ("anna", 23 * HOUR), ("carl", 45 * HOUR)]
    records = [
        ProducerRecord("visits", {"hour": time // HOUR}, user, timestamp=time + 1) for user, time in visits
    ]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(records).run_with(writer).result(30)

    graph(cluster.bootstrap_servers).run().completion.result(60)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    for row in Consumer.records(
        reading, Subscriptions.topics("active"), key="string", value="json", until="end"
    ).run_iter():
        print(f"hour {row.timestamp // HOUR}: {row.key} {row.value}")


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
