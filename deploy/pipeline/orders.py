"""A pipeline to deploy: it counts the orders of each customer. Replace it with your own.

It reads topic `orders` and writes the counts to `orders-per-customer`. Counts, results and positions are committed in one transaction, so an
order counts once, also after a crash. The counts are kept on disk: a restart reads only what has changed since.

Environment: STREAMACTORS_BOOTSTRAP, the brokers; INSTANCE, a name that a restarted process has again; STATE_FOLDER, a folder of this instance."""

from __future__ import annotations

import os

from streamactors import Keep, RunnableGraph, StreamFuture
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import State


def graph() -> RunnableGraph[StreamFuture[None]]:
    """Return the graph; `streamactors run orders.py:graph` runs it."""
    bootstrap = os.environ.get("STREAMACTORS_BOOTSTRAP", "localhost:9092")
    instance = os.environ.get("INSTANCE", "orders-0")
    settings = ConsumerSettings(
        bootstrap,
        group_id="orders-per-customer",
        auto_offset_reset="earliest",
        state=State.on_disk(os.environ.get("STATE_FOLDER", "state")),
    ).with_property("group.instance.id", instance)
    return (
        Consumer.records(settings, Subscriptions.topics("orders"), key="string")
        .group_by_key()
        .count(name="orders")
        .to_stream()
        .map(lambda count: ProducerRecord("orders-per-customer", str(count.value), count.key))
        .to_mat(Transactional.sink(ProducerSettings(bootstrap, transactional_id=instance)), Keep.right)
    )
