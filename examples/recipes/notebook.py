"""Cells for a notebook: look at a topic, draw a graph, keep the result. python examples/recipes/notebook.py"""

# %% The broker, or any Kafka
from streamactors import Keep, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)


def main(cluster: Cluster) -> None:
    # %% A topic with something in it
    cluster.create_topic("prices")
    prices = Source.range(1_000).map(
        lambda n: ProducerRecord("prices", {"n": n, "price": n % 7}, f"item-{n % 3}")
    )
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    prices.run_with(writer).result(30)

    # %% The first rows: no group, nothing is committed
    settings = ConsumerSettings(cluster.bootstrap_servers, auto_offset_reset="earliest")
    topic = Subscriptions.assignment(("prices", 0))
    records = Consumer.records(settings, topic, key="string", value="json", until="end")
    for record in records.take(3).run_iter():
        print(record.key, record.value)

    # %% A graph draws itself when it is the last value of a cell
    values = records.map(lambda record: record.value).filter(lambda row: row["price"] > 3)
    graph = values.to_pandas().to_mat(Sink.last(), Keep.right)
    print(graph)

    # %% Run it; the future can be awaited in a cell, too
    frame = graph.run().result(30)
    print(frame.price.value_counts().sort_index().to_dict())


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
