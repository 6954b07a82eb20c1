"""An Alpakka Kafka stream as a graph: committable source, calls, batched commits. python examples/migrating/alpakka.py"""

from typing import Any

from streamactors import RunnableGraph, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    CommittableMessage,
    CommittableOffset,
    Committer,
    CommitterSettings,
    Consumer,
    ConsumerSettings,
    DrainingControl,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def graph(bootstrap: str, stored: list[bytes]) -> RunnableGraph[Any]:
    async def store(message: CommittableMessage) -> CommittableOffset:
        stored.append(message.record.value)
        return message.offset

    settings = ConsumerSettings(bootstrap, group_id="orders", auto_offset_reset="earliest")
    return (
        Consumer.committable_source(settings, Subscriptions.topics("orders"), until="end")
        .map_async(4, store)
        .to_mat(Committer.sink(CommitterSettings()), DrainingControl.create)
    )


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    orders = Source.from_iterable(["tea", "jam"]).map(lambda item: ProducerRecord("orders", item))
    orders.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(30)

    for _ in range(2):  # the second run finds everything committed
        stored: list[bytes] = []
        control = graph(cluster.bootstrap_servers, stored).run()
        control.is_shutdown.result(30)
        print(stored)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
