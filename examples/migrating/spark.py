"""A query of Spark Structured Streaming as a graph: payments of each customer and minute. python examples/migrating/spark.py"""

from datetime import UTC, datetime
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
from streamactors.windows import Suppressed, TimeWindows

SECOND = 1_000


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="payments-per-minute", auto_offset_reset="earliest")
    payments = Consumer.records(
        settings, Subscriptions.topics("payments"), key="string", value="json", until="end"
    )
    windows = payments.group_by_key().windowed_by(TimeWindows.of_size("1m").with_grace("10s"))
    counts = windows.count(name="counts").suppress(Suppressed.until_window_closes())
    return counts.to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("payments", partitions=1)
    paid = [
        ("anna", 5),
        ("bob", 20),
        ("anna", 65),
        ("anna", 50),
        ("bob", 80),
        ("bob", 30),
    ]  # the last is too late
    payments = [ProducerRecord("payments", {"amount": 1}, name, timestamp=at * SECOND) for name, at in paid]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(payments).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    for row in sorted(done.result(60), key=lambda row: (row.key, row.start)):
        print(row.key, f"{datetime.fromtimestamp(row.start / 1000, UTC):%H:%M}", row.value)
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
