"""The three largest orders of each city in each hour. python examples/recipes/top_n.py"""

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


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="largest", auto_offset_reset="earliest")
    orders = Consumer.records(settings, Subscriptions.topics("orders"), key="string", value="json", until="end")
    by_city = orders.key_by(lambda order: order.value["city"])  # through a repartition topic
    per_hour = by_city.windowed_by(TimeWindows.of_size("1h").with_grace("5m"))
    largest = per_hour.top(3, of=lambda order: order["amount"], name="largest")
    return largest.suppress(Suppressed.until_window_closes()).to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("orders", partitions=2)
    amounts = {"Oslo": [10, 70, 20, 50, 60], "Bergen": [5, 1]}
    orders = [
        ProducerRecord("orders", {"city": city, "amount": amount}, f"order-{city}-{amount}", timestamp=1_000)
        for city, each in amounts.items()
        for amount in each
    ]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(orders).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    for city in sorted(done.result(60), key=lambda row: row.key):
        print(city.key, city.value)
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
