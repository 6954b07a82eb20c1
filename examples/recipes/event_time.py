"""Windows over the time that a field of the value names. python examples/recipes/event_time.py"""

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
from streamactors.windows import Record, TimeWindows


def taken_at(reading: Record) -> int:
    return int(datetime.fromisoformat(reading.value["taken_at"]).timestamp() * 1000)


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="hottest", auto_offset_reset="earliest")
    readings = Consumer.records(
        settings, Subscriptions.topics("readings"), key="string", value="json", timestamp=taken_at, until="end"
    )
    per_hour = readings.group_by_key().windowed_by(TimeWindows.of_size("1h").with_grace("10m"))
    return per_hour.max(of=lambda reading: reading["celsius"]).to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("readings")
    taken = {"2026-11-01T10:15:00+00:00": 18, "2026-11-01T10:40:00+00:00": 21, "2026-11-01T11:05:00+00:00": 20}
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers), key="string", value="json")
    readings = [
        ProducerRecord("readings", {"taken_at": at, "celsius": heat}, "oslo") for at, heat in taken.items()
    ]
    Source.from_iterable(readings).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    for hour in done.result(30):
        print(f"{datetime.fromtimestamp(hour.start / 1000, UTC):%H:%M} {hour.key} {hour.value}")
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
