"""An offset is committed when its row is in the database. python examples/recipes/commit_after_write.py"""

import sqlite3
import tempfile
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Admin,
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.windows import Record


def graph(bootstrap: str, database: str) -> RunnableGraph[Any]:
    def write(order: Record) -> None:
        with sqlite3.connect(database) as connection:  # commits at the end of the block
            upsert = "INSERT INTO orders VALUES (?, ?) ON CONFLICT (id) DO UPDATE SET amount = excluded.amount"
            connection.execute(upsert, (order.key, order.value["amount"]))

    settings = ConsumerSettings(bootstrap, group_id="orders-to-database", auto_offset_reset="earliest")
    orders = Consumer.records(settings, Subscriptions.topics("orders"), key="string", value="json", until="end")
    return orders.to_mat(Sink.foreach(write), Keep.both)


def main(cluster: Cluster) -> None:
    bootstrap, database = cluster.bootstrap_servers, f"{tempfile.mkdtemp()}/orders.db"
    cluster.create_topic("orders")
    sample = [ProducerRecord("orders", {"amount": n}, f"order-{n}") for n in (10, 20, 30)]
    writer = Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json")
    Source.from_iterable(sample).run_with(writer).result(30)

    for attempt in ("without a table", "with its table"):
        control, done = graph(bootstrap, database).run()
        error = done.exception(30)
        control.is_shutdown.exception(30)
        with Admin(ConsumerSettings(bootstrap)) as admin:
            print(attempt, "->", error or "written", admin.committed("orders-to-database"))
        sqlite3.connect(database).execute(
            "CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, amount INTEGER)"
        )
    print(sqlite3.connect(database).execute("SELECT * FROM orders").fetchall())


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
