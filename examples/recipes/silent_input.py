"""The last windows close although no more rows come. python examples/recipes/silent_input.py"""

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
    settings = ConsumerSettings(bootstrap, group_id="last-minute", auto_offset_reset="earliest")
    clicks = Consumer.records(settings, Subscriptions.topics("clicks"), key="string")
    windows = clicks.group_by_key().windowed_by(TimeWindows.of_size("500ms").with_no_grace(), idle_after="300ms")
    final = windows.count(name="clicks").suppress(Suppressed.until_window_closes()).to_stream()
    return final.to_mat(Sink.head(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    clicks = [ProducerRecord("clicks", "click", "anna", timestamp=time) for time in (1_000, 1_200, 1_400)]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(clicks).run_with(writer).result(30)

    control, first = graph(cluster.bootstrap_servers).run()  # no row after 1_400 comes
    closed = first.result(30)
    print(closed.key, closed.start, closed.end, closed.value)
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
