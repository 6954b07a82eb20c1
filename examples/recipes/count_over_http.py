"""Views per page and minute: over HTTP, and in a line of the log every few seconds. python examples/recipes/count_over_http.py"""

import json
import logging
import time
import urllib.error
import urllib.request
from typing import Any

from streamactors import Keep, RunnableGraph, Sink, Source
from streamactors.broker import Cluster
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    Control,
    Producer,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
)
from streamactors.windows import State, StoreNotReady, TimeWindows

log = logging.getLogger("views")
AT, TOKEN = "127.0.0.1:8085", "change me"


def graph(bootstrap: str, every: str = "10s") -> RunnableGraph[Control]:
    state = State.in_memory(advertise=AT, token=TOKEN)
    settings = ConsumerSettings(bootstrap, group_id="views", auto_offset_reset="earliest", state=state)
    clicks = Consumer.records(settings, Subscriptions.topics("clicks"), key="string")
    views = clicks.group_by_key().windowed_by(TimeWindows.of_size("1m").with_grace("1m")).count(name="views")
    running = views.to_stream().to_mat(Sink.ignore(), Keep.left)
    return running.map_materialized_value(lambda control: report(control, every))


def report(control: Control, every: str) -> Control:
    """Log a line now and then while the graph runs; called once, when it has begun."""

    async def line(_: None) -> str:
        try:
            entries = await control.store("views").items()
        except StoreNotReady:
            return "the counts are not ready"
        return f"{sum(entry.value for entry in entries)} views of {len(entries)} pages and minutes"

    ticks = Source.tick(every, every, None).map_async(1, line).to(Sink.foreach(log.info)).run()
    control.is_shutdown.add_done_callback(lambda _: ticks.cancel())
    return control


def ask(path: str) -> Any:
    request = urllib.request.Request(f"http://{AT}{path}", headers={"Authorization": f"Bearer {TOKEN}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.load(answer)
    except urllib.error.URLError:  # it has just begun: 503 until its state is there
        return []


def main(cluster: Cluster) -> None:
    cluster.create_topic("clicks")
    clicks = [("/home", 1_000), ("/docs", 2_000), ("/home", 3_000), ("/home", 61_000)]
    records = [ProducerRecord("clicks", "click", page, timestamp=at) for page, at in clicks]
    Source.from_iterable(records).run_with(
        Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))
    ).result(30)

    control = graph(cluster.bootstrap_servers, every="1s").run()
    deadline = time.monotonic() + 60
    while len(found := ask("/stores/views?windows=/home")) < 2 and time.monotonic() < deadline:
        time.sleep(0.5)
    for entry in found:
        print(entry["key"], entry["start"], entry["value"])
    control.shutdown().result(30)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with Cluster() as demo:
        main(demo)
