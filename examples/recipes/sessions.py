"""Visits of a user: clicks with at most half an hour between them. python examples/recipes/sessions.py"""

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
from streamactors.windows import SessionWindows, Suppressed

MINUTE = 60_000


def graph(bootstrap: str) -> RunnableGraph[Any]:
    settings = ConsumerSettings(bootstrap, group_id="visits", auto_offset_reset="earliest")
    clicks = Consumer.records(
        settings, Subscriptions.topics("clicks"), key="string", value="string", until="end"
    )
    visits = clicks.group_by_key().windowed_by(SessionWindows.with_gap("30m").with_grace("5m"))
    pages = visits.aggregate(list, add=lambda seen, page: [*seen, page], merge=lambda a, b: a + b, name="visits")
    return pages.suppress(Suppressed.until_window_closes()).to_stream().to_mat(Sink.to_list(), Keep.both)


def main(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    seen = [
        ("anna", 0, "home"),
        ("anna", 20, "tea"),
        ("bob", 25, "home"),
        ("anna", 45, "cart"),
        ("anna", 90, "home"),
    ]
    clicks = [ProducerRecord("clicks", page, user, timestamp=minute * MINUTE + 1) for user, minute, page in seen]
    writer = Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    Source.from_iterable(clicks).run_with(writer).result(30)

    control, done = graph(cluster.bootstrap_servers).run()
    for visit in done.result(30):
        print(f"{visit.key}, minute {visit.start // MINUTE} to {visit.end // MINUTE}: {' > '.join(visit.value)}")
    control.is_shutdown.result(30)


if __name__ == "__main__":
    with Cluster() as demo:
        main(demo)
