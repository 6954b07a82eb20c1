"""A Quix Streams application as a graph: final averages of a minute. python examples/migrating/quix_streams.py"""

from typing import Any

from streamactors import Keep, RunnableGraph, Source
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

MINUTE = 60_000


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="averages", auto_offset_reset="earliest")
    readings = Consumer.records(
        settings, Subscriptions.topics("readings"), key="string", value="json", until="end"
    )
    warm = readings.filter(lambda reading: reading.value["celsius"] > 0)
    windows = warm.group_by_key().windowed_by(TimeWindows.of_size("1m").with_grace("5s"))
    average = windows.mean(of=lambda reading: reading["celsius"], name="average")
    results = (
        average.suppress(Suppressed.until_window_closes())
        .to_stream()
        .map(
            lambda row: ProducerRecord(
                "averages", {"start": row.start, "end": row.end, "value": row.value}, row.key
            )
        )
    )
    return results.to_mat(
        Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json"), Keep.both
    )


def main(cluster: Cluster) -> None:
    for topic in ("readings", "averages"):
        cluster.create_topic(topic)
    readings = [(1_000, 18), (30_000, 20), (40_000, -99), (MINUTE, 21)]
    records = [ProducerRecord("readings", {"celsius": heat}, "oslo", timestamp=time) for time, heat in readings]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    Source.from_iterable(records).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    done.result(30)
    control.is_shutdown.result(30)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    for row in Consumer.records(reading, Subscriptions.topics("averages"), value="json", until="end").run_iter():
        print(row.value)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
