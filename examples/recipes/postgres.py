"""Batches of rows into PostgreSQL, each a transaction. python examples/recipes/postgres.py "dbname=shop user=me" """

import sys
from collections.abc import Callable
from functools import partial
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


def graph(bootstrap: str, connect: Callable[[], Any]) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="orders-to-postgres", auto_offset_reset="earliest")
    rows = Consumer.records(
        settings, Subscriptions.topics("orders"), key="string", value="json", until="end"
    ).map(lambda order: {"id": order.key, "amount": order.value["amount"]})
    sink = Sink.to_sql_table(
        connect,
        "orders",
        ["id", "amount"],
        key="id",
        max=1_000,
        within="500ms",
        retry=RestartSettings("200ms", "30s"),
    )
    return rows.to_mat(sink, Keep.both)


def main(cluster: Cluster, connect: Callable[[], Any]) -> None:
    cluster.create_topic("orders", partitions=3)
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    orders = Source.range(5_000).map(lambda n: ProducerRecord("orders", {"amount": n}, f"order-{n % 4_000}"))
    orders.run_with(writer).result(30)

    database = connect()
    database.cursor().execute("CREATE TABLE orders (id varchar(20) PRIMARY KEY, amount integer)")
    database.commit()
    control, written = graph(cluster.bootstrap_servers, connect).run()
    print(written.result(60), "records written")
    control.is_shutdown.result(30)
    cursor = database.cursor()
    cursor.execute("SELECT count(*), min(amount), max(amount) FROM orders")
    print("rows, least and greatest amount:", *cursor.fetchone())
    database.close()


if __name__ == "__main__":
    import psycopg

    with Cluster() as demo:
        main(demo, partial(psycopg.connect, sys.argv[1]))
