"""What metrics cost a running stream: no endpoint, an endpoint without scrapes, one scrape a second. And what the timestamps for the lag in seconds cost
a Kafka source.

By CPU seconds of the process, which has the stream and the endpoint; the scraper is another process. The cases alternate, so that each pair meets the
same machine. The rows of the scrapes' and the timestamps' own time are exact."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks._rows import ELEMENTS_OF_STREAM, Row, cpu, plain_stream, share_row
from streamactors import ActorSystem, Sink, Source
from streamactors.broker import Cluster
from streamactors.broker.http.endpoint_address import MetricsEndpoint
from streamactors.kafka import Consumer, ConsumerSettings, Producer, ProducerRecord, ProducerSettings, Subscriptions
from streamactors.kafka.client.runs import made_at_ms, made_message
from streamactors.kafka.reading import record_times
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.metrics.registry import SystemCollector, registry_of

RECORDS = 400_000
REPEAT = 12

_SCRAPER = """
import sys, time, urllib.request
url, token = sys.argv[1:]
asked = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
while True:
    try:
        with urllib.request.urlopen(asked, timeout=10) as answer:
            answer.read()
    except OSError:
        break
    print("scraped", flush=True)
    time.sleep(1)
"""


@contextmanager
def scraper(port: int, token: str) -> Iterator[None]:
    """Scrape once a second from another process."""
    arguments = [sys.executable, "-c", _SCRAPER, f"http://127.0.0.1:{port}/metrics", token]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "scraped\n"
        try:
            yield
        finally:
            process.kill()


def spent(how: str) -> tuple[float, float]:
    """Return the CPU seconds of the stream, and the time that scrapes took."""
    from streamactors.cli.graphs.run_metrics import serve_metrics

    with ActorSystem("stream") as system:
        if how == "off":
            return cpu(lambda: plain_stream(system)), 0.0
        collector = SystemCollector(system)
        seconds = [0.0]
        collect = collector.collect

        def timed() -> Any:
            began = time.thread_time()
            found = list(collect())
            seconds[0] += time.thread_time() - began
            return found

        collector.collect = timed  # type: ignore[method-assign]
        endpoint = MetricsEndpoint.of("0")
        with serve_metrics(endpoint, registry_of(collector), lambda: None, lambda: (True, ())) as port:  # type: ignore[arg-type,return-value]
            if how == "on":
                return cpu(lambda: plain_stream(system)), seconds[0]
            with scraper(port, endpoint.token):
                return cpu(lambda: plain_stream(system)), seconds[0]


def kafka_stream(servers: str) -> None:
    """Read the topic to its end, with a mark per chunk."""
    settings = ConsumerSettings(servers, group_id=f"g{time.monotonic_ns()}", auto_offset_reset="earliest")
    with ActorSystem("kafka") as system:
        source = Consumer.source(settings, Subscriptions.topics("numbers"), until="end")
        assert source.run_with(Sink.count(), system).result(300) == RECORDS


def stamped(servers: str, *, on: bool) -> float:
    """Return the CPU seconds with the timestamps of chunks, or with nothing in their place."""
    kept: dict[str, Callable[..., Any]] = {}
    if not on:
        for name in ("note", "done"):
            kept[name] = getattr(record_times.RecordTimes, name)
            setattr(record_times.RecordTimes, name, lambda *_: None)
    try:
        return cpu(lambda: kafka_stream(servers))
    finally:
        for name, fn in kept.items():
            setattr(record_times.RecordTimes, name, fn)


def run() -> list[Row]:
    """Return a row for each case, and one for the timestamps."""
    found: dict[str, list[tuple[float, float]]] = {"off": [], "on": [], "scraped": []}
    for _ in range(REPEAT):
        for how, seconds in found.items():
            seconds.append(spent(how))
    alone = found["off"]
    peer = f"without metrics {ELEMENTS_OF_STREAM / statistics.median(all_of for all_of, _ in alone) / 1e6:.1f} M elements/CPU-s"
    rows = []
    for how, name, target in (
        ("on", "an endpoint without scrapes", "nothing measurable"),
        ("scraped", "an endpoint, scraped every second", "< 1 %"),
    ):
        pairs = [mine / theirs - 1 for (mine, _), (theirs, _) in zip(found[how], alone, strict=True)]
        rows.append(share_row(name, pairs, "more CPU", peer, target))
    scrapes = [own / (mine - own) for mine, own in found["scraped"]]
    rows.append(share_row("the scrapes' own time", scrapes, "of the stream's CPU", peer, "< 1 %"))
    with Cluster() as cluster:
        cluster.create_topic("numbers", 2)
        records = Source.range(RECORDS).map(lambda n: ProducerRecord("numbers", b"%d" % n, partition=n % 2))
        records.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(300)
        servers = cluster.bootstrap_servers
        on: list[float] = []
        off: list[float] = []
        for number in range(REPEAT):
            for with_them in (number % 2 == 0, number % 2 == 1):
                (on if with_them else off).append(stamped(servers, on=with_them))
        chunks = noted(servers)
    peer = f"without them {RECORDS / statistics.median(off) / 1e6:.2f} M records/CPU-s"
    pairs = [mine / theirs - 1 for mine, theirs in zip(on, off, strict=True)]
    rows.append(share_row("timestamps for the lag in seconds", pairs, "more CPU", peer, "< 1 %"))
    own = [each_chunk_s() * chunks / seconds for seconds in off]
    rows.append(share_row("the timestamps' own time", own, "of the stream's CPU", peer, "< 1 %"))
    return rows


def noted(servers: str) -> int:
    """Return how many chunks get a timestamp in one run."""
    note, calls = record_times.RecordTimes.note, [0]

    def counted(*arguments: Any) -> None:
        calls[0] += 1
        note(*arguments)

    record_times.RecordTimes.note = counted  # type: ignore[method-assign,assignment]
    try:
        kafka_stream(servers)
    finally:
        record_times.RecordTimes.note = note  # type: ignore[method-assign]
    return calls[0] // 2  # a chunk is noted when it is handed over, and when it is pushed


def each_chunk_s() -> float:
    """Return the CPU seconds that a chunk's timestamp costs."""
    times, count, message = record_times.RecordTimes(), 100_000, made_message(TopicPartition("t", 0), 0, None, b"", 1)

    def note() -> None:
        for number in range(count):
            first = number * 500
            times.note(first, first + 500, made_at_ms(message))
            times.note(first, first + 500, made_at_ms(message))
            times.done(first + 500)

    return cpu(note) / count
