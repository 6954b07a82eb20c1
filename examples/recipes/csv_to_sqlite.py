"""From a CSV file to a topic, and from the topic to SQLite. python examples/recipes/csv_to_sqlite.py"""

import sqlite3
import tempfile
from pathlib import Path
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


def to_topic(bootstrap: str, file: Path) -> RunnableGraph[Any]:
    rows = Source.from_csv(file, types={"price": float})
    records = rows.map(lambda row: ProducerRecord("prices", row, row["city"]))
    return records.to_mat(
        Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json"), Keep.right
    )


def to_sqlite(bootstrap: str, database: Path) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="prices-to-sqlite", auto_offset_reset="earliest")
    prices = Consumer.records(settings, Subscriptions.topics("prices"), key="string", value="json", until="end")
    table = Sink.to_sql_table(lambda: sqlite3.connect(database), "prices", ["city", "price"], key="city")
    return prices.map(lambda record: record.value).to_mat(table, Keep.both)


def main(cluster: Cluster) -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "prices.csv").write_text('city,price\nOslo,1.5\n"Mo, Rana",2\nOslo,3.25\n')
    sqlite3.connect(folder / "prices.db").execute("CREATE TABLE prices (city TEXT PRIMARY KEY, price REAL)")
    cluster.create_topic("prices")

    to_topic(cluster.bootstrap_servers, folder / "prices.csv").run().result(30)
    control, written = to_sqlite(cluster.bootstrap_servers, folder / "prices.db").run()
    print(written.result(30), "records written")
    control.is_shutdown.result(30)
    print(sqlite3.connect(folder / "prices.db").execute("SELECT * FROM prices ORDER BY city").fetchall())


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
