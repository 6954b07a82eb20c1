"""Of events with the same id only the first is kept, for a day. python examples/recipes/deduplicate.py"""

from collections.abc import Iterable
from typing import Any

from streamactors import Keep, RunnableGraph, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.windows import Record


def first(seen: bool | None, event: Record) -> tuple[bool, Iterable[Any]]:
    return True, [] if seen else [event]


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="once", auto_offset_reset="earliest")
    payments = Consumer.records(
        settings, Subscriptions.topics("payments"), key="string", value="json", until="end"
    )
    once = payments.keyed(first, ttl="1d", name="seen")  # the key is the id of the payment
    results = once.map(lambda payment: ProducerRecord("payments-once", payment.value, payment.key))
    writing = ProducerSettings(bootstrap, transactional_id="once-0")  # one id for each instance
    return results.to_mat(Transactional.sink(writing, key="string", value="json"), Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("payments", "payments-once"):
        cluster.create_topic(topic, partitions=2)
    payments = [ProducerRecord("payments", {"amount": 10}, f"payment-{n}") for n in (1, 2, 1, 3, 2, 1)]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(payments).run_with(writer).result(30)

    for _ in range(2):  # the second run, as after a restart, has nothing to do
        control, done = graph(cluster.bootstrap_servers).run()
        done.result(30)
        control.is_shutdown.result(30)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    once = Consumer.records(reading, Subscriptions.topics("payments-once"), key="string", until="end")
    print(sorted(payment.key for payment in once.run_iter()))


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
