"""One result for each window, emitted when it can no longer change. python examples/recipes/final_windows.py"""

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
    Transactional,
)
from streamactors.windows import Suppressed, TimeWindows

MINUTE = 60_000


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="clicks-per-minute", auto_offset_reset="earliest")
    clicks = Consumer.records(settings, Subscriptions.topics("clicks"), key="string", value="string")
    per_minute = (
        clicks.group_by_key().windowed_by(TimeWindows.of_size("1m").with_grace("10s")).count(name="clicks")
    )
    final = per_minute.suppress(Suppressed.until_window_closes()).to_stream()
    results = final.map(
        lambda row: ProducerRecord("per-minute", {"from": row.start, "clicks": row.value}, row.key)
    )
    writing = ProducerSettings(bootstrap, transactional_id="clicks-per-minute-0")  # one id for each instance
    return results.to_mat(Transactional.sink(writing, key="string", value="json"), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    cluster.create_topic("per-minute")
    times = [5_000, 20_000, MINUTE + 1_000, 50_000, MINUTE + 10_000]  # 50_000 is out of order, within the grace
    clicks = [ProducerRecord("clicks", "click", "anna", timestamp=time) for time in times]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(clicks).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    reading = ConsumerSettings(cluster.bootstrap_servers, group_id="reader", auto_offset_reset="earliest")
    results = Consumer.records(reading, Subscriptions.topics("per-minute"), key="string", value="json")
    for result in results.take(1).run_iter():
        print(result.key, result.value)
    control.drain_and_shutdown(done, timeout=30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
