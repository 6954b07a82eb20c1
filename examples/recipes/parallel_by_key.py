"""Many records at once, those of a key one after another. python examples/recipes/parallel_by_key.py"""

import asyncio
import time
from collections import defaultdict
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


def graph(bootstrap: str) -> RunnableGraph[Any]:
    async def charge(order: Record) -> Record:
        await asyncio.sleep(0.05)  # a call of a payment service
        return order

    settings = ConsumerSettings(bootstrap, group_id="charges", auto_offset_reset="earliest")
    orders = Consumer.records(
        settings, Subscriptions.topics("orders"), key="string", value="integer", until="end"
    )
    charged = orders.map_async_partitioned(100, lambda order: order.key, charge)
    return charged.to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders")  # one partition, and yet 20 calls at once
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="integer")
    orders = Source.range(100).map(lambda n: ProducerRecord("orders", n, f"customer-{n % 20}"))
    orders.run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    began = time.monotonic()
    by_customer = defaultdict(list)
    for order in done.result(30):
        by_customer[order.key].append(order.value)
    control.is_shutdown.result(30)
    print("customer-7:", by_customer["customer-7"])
    print("5 s of calls took less than 2 s:", time.monotonic() - began < 2)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
