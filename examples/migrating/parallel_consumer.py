"""What the Parallel Consumer does: many records at once, ordered by key, tried again. python examples/migrating/parallel_consumer.py"""

import asyncio
from collections import Counter, defaultdict
from typing import Any

from streamactors import Keep, RestartSettings, RunnableGraph, Sink, Source
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

calls: Counter[int] = Counter()


async def charge(order: Record) -> Record:
    calls[order.value] += 1
    await asyncio.sleep(0.01)
    if order.value % 10 == 0 and calls[order.value] < 3:
        raise OSError("busy")
    return order


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="charges", auto_offset_reset="earliest")
    orders = Consumer.records(
        settings, Subscriptions.topics("orders"), key="string", value="integer", until="end"
    )
    again = RestartSettings("10ms", "1s", max_restarts=5)
    charged = orders.map_async_partitioned(100, lambda order: order.key, charge, retry=again)
    return charged.to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders")
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="integer")
    orders = Source.range(60).map(lambda n: ProducerRecord("orders", n, f"customer-{n % 20}"))
    orders.run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    by_customer = defaultdict(list)
    for order in done.result(30):
        by_customer[order.key].append(order.value)
    control.is_shutdown.result(30)
    print("customer-10:", by_customer["customer-10"], "after", calls[10], "calls for the first")


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
