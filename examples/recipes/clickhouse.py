"""Batches of rows into ClickHouse over HTTP. python examples/recipes/clickhouse.py http://localhost:8123"""

import json
import sys
from typing import Any

import httpx

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

TABLE = """CREATE TABLE IF NOT EXISTS orders (part UInt32, pos UInt64, id String, amount Int64)
ENGINE = ReplacingMergeTree ORDER BY (part, pos)"""


def graph(bootstrap: str, client: httpx.Client) -> RunnableGraph[Any]:
    def row(order: Record) -> dict[str, Any]:
        place = order.context
        assert place is not None  # a record of a topic has one
        return {"part": place.partition, "pos": place.offset, "id": order.key, "amount": order.value["amount"]}

    def write(rows: list[dict[str, Any]]) -> None:
        lines = "\n".join(map(json.dumps, rows))
        client.post(
            "/", params={"query": "INSERT INTO orders FORMAT JSONEachRow"}, content=lines
        ).raise_for_status()

    settings = ConsumerSettings(bootstrap, group_id="orders-to-clickhouse", auto_offset_reset="earliest")
    orders = Consumer.records(settings, Subscriptions.topics("orders"), key="string", value="json", until="end")
    sink = Sink.batches(write, max=100_000, within="2s", retry=RestartSettings("200ms", "30s"))
    return orders.map(row).to_mat(sink, Keep.both)


def main(cluster: Cluster, clickhouse: str) -> None:
    cluster.create_topic("orders", partitions=3)
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    orders = Source.range(5_000).map(lambda n: ProducerRecord("orders", {"amount": n}, f"order-{n}"))
    orders.run_with(writer).result(30)

    with httpx.Client(base_url=clickhouse, timeout=30) as client:
        client.post("/", content=TABLE).raise_for_status()
        control, written = graph(cluster.bootstrap_servers, client).run()
        print(written.result(60), "records written")
        control.is_shutdown.result(30)
        print("rows:", client.post("/", content="SELECT count() FROM orders FINAL").text.strip())


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo, sys.argv[1])
