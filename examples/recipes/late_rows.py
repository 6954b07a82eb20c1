"""Rows that come after their window has closed go to a topic of their own. python examples/recipes/late_rows.py"""

from typing import Any

from streamactors import Flow, Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.windows import LateRecord, Suppressed, TimeWindows

MINUTE = 60_000


def aside(late: LateRecord) -> ProducerRecord:
    value = {"row": late.record.value, "missed_window_from": late.start, "late_by_ms": late.limit - late.end}
    return ProducerRecord("clicks-late", value, late.record.key, timestamp=late.record.timestamp)


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="with-late-rows", auto_offset_reset="earliest")
    late = Flow.map(aside).to(Producer.plain_sink(ProducerSettings(bootstrap), key="string", value="json"))
    clicks = Consumer.records(
        settings, Subscriptions.topics("clicks"), key="string", value="string", until="end"
    )
    windows = clicks.group_by_key().windowed_by(TimeWindows.of_size("1m").with_grace("5s"), late=late)
    final = windows.count(name="clicks").suppress(Suppressed.until_window_closes()).to_stream()
    return final.to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    for topic in ("clicks", "clicks-late"):
        cluster.create_topic(topic)
    clicks = [ProducerRecord("clicks", "a", "anna", timestamp=time) for time in (1_000, 2 * MINUTE, 2_000)]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(clicks).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    print([(window.start, window.value) for window in done.result(30)])
    control.is_shutdown.result(30)
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    for row in Consumer.records(
        reading, Subscriptions.topics("clicks-late"), value="json", until="end"
    ).run_iter():
        print(row.value)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
