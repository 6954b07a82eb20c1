"""A Bytewax dataflow as a graph: amounts of each customer and minute. python examples/migrating/bytewax.py"""

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
from streamactors.windows import Record, Suppressed, TimeWindows


def paid_at(payment: Record) -> int:
    return int(datetime.fromisoformat(payment.value["at"]).timestamp() * 1000)


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="amounts", auto_offset_reset="earliest")
    payments = Consumer.records(
        settings, Subscriptions.topics("payments"), value="json", timestamp=paid_at, until="end"
    )
    windows = payments.key_by(lambda payment: payment.value["customer"]).windowed_by(
        TimeWindows.of_size("1m").with_grace("5m")
    )
    total = windows.aggregate(int, lambda total, payment: total + payment["amount"], name="amounts")
    return total.suppress(Suppressed.until_window_closes()).to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("payments", partitions=2)
    paid = [("anna", "10:00:05", 10), ("bob", "10:00:20", 7), ("anna", "10:00:50", 20), ("anna", "10:01:30", 5)]
    payments = [
        {"customer": name, "at": f"2026-11-01T{at}+00:00", "amount": amount} for name, at, amount in paid
    ]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), value="json")
    Source.from_iterable(payments).map(lambda each: ProducerRecord("payments", each)).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    for row in sorted(done.result(60), key=lambda row: (row.key, row.start)):
        print(row.key, f"{datetime.fromtimestamp(row.start / 1000, UTC):%H:%M}", row.value)
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
