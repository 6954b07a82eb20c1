"""A topic as pandas and polars frames, and a frame into a topic. python examples/recipes/dataframes.py"""

import pandas
import polars

from streamactors import Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    MetadataClient,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def write(bootstrap: str, frame: pandas.DataFrame) -> None:
    rows = Source.from_iterable(frame.to_dict("records")).map(
        lambda row: ProducerRecord("prices", row, row["city"])
    )
    rows.run_with(Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json")).result(30)


def frames(bootstrap: str) -> tuple[pandas.DataFrame, polars.DataFrame]:
    settings = ConsumerSettings(bootstrap, auto_offset_reset="earliest")
    with MetadataClient(settings) as client:
        whole = Subscriptions.assignment(*client.partitions_for("prices"))  # without a group
    values = Consumer.records(settings, whole, value="json", until="end").map(lambda record: record.value)
    parts = values.to_pandas(rows=10_000).run_with(Sink.to_list()).result(60)  # a frame for each 10,000 rows
    (frame,) = values.to_polars().run_with(Sink.to_list()).result(60)
    return pandas.concat(parts), frame


def main(cluster: Cluster) -> None:
    cluster.create_topic("prices")
    write(
        cluster.bootstrap_servers,
        pandas.DataFrame({"city": ["Oslo", "Bergen", "Oslo"], "price": [1.5, 2.0, 3.25]}),
    )
    of_pandas, of_polars = frames(cluster.bootstrap_servers)
    print(of_pandas.groupby("city").price.mean().to_dict())
    print(of_polars.group_by("city").agg(polars.col("price").max()).sort("city").rows())


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
