"""A test with a broker of its own, without Docker. pytest examples/recipes/tests_without_docker.py"""

import subprocess
import sys
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


def totals(bootstrap: str, topic: str, until: str | None = None) -> RunnableGraph[Any]:
    """The graph of the application."""
    settings = ConsumerSettings(bootstrap, group_id="totals", auto_offset_reset="earliest")
    orders = Consumer.records(settings, Subscriptions.topics(topic), value="json", until=until)
    return orders.map(lambda order: order.value["amount"]).to_mat(Sink.fold(0, int.__add__), Keep.both)


def test_the_total_is_that_of_all_orders(kafka_broker: Cluster, kafka_topic: str) -> None:
    address = kafka_broker.bootstrap_servers
    orders = [ProducerRecord(kafka_topic, {"amount": amount}) for amount in (10, 20, 30)]
    writer = Producer.plain_sink(ProducerSettings(address), value="json")
    Source.from_iterable(orders).run_with(writer).result(30)

    control, total = totals(address, kafka_topic, until="end").run()
    assert total.result(30) == 60
    control.is_shutdown.result(30)


def main(_: Cluster) -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:randomly", __file__]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    print(done.stdout.splitlines()[-1].partition(" in ")[0])


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
