"""How many records a topic holds: at once, exactly, and per key. python examples/recipes/count_topic.py"""

from collections import Counter

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    MetadataClient,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)


def offsets_between(settings: ConsumerSettings, topic: str) -> int:
    with MetadataClient(settings) as client:
        partitions = client.partitions_for(topic)
        first, end = client.beginning_offsets(partitions), client.end_offsets(partitions)
    return sum(end[each] - first[each] for each in partitions)


def counted(settings: ConsumerSettings, topic: str) -> Counter[bytes | None]:
    with MetadataClient(settings) as client:
        every = Subscriptions.assignment(*client.partitions_for(topic))  # without a group: nothing is committed
    keys = Consumer.plain_source(settings, every, until="end").map(lambda record: record.key)
    tally = Sink.fold(Counter[bytes | None](), lambda counts, key: counts + Counter([key]))
    return keys.run_with(tally).result(60)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=3)
    orders = Source.range(600).map(lambda n: ProducerRecord("orders", str(n), f"customer-{n % 3}"))
    transaction = ProducerSettings(cluster.bootstrap_servers, transactional_id="writer")
    orders.run_with(Transactional.sink(transaction)).result(30)

    settings = ConsumerSettings(cluster.bootstrap_servers, auto_offset_reset="earliest")
    print("between the offsets, more than", offsets_between(settings, "orders") // 100 * 100)
    counts = counted(settings, "orders")
    print("exactly", counts.total(), "of which", counts[b"customer-1"], "of customer-1")


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
