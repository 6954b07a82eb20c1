"""Windows from topic to topic: count + suppress with a changelog, exactly once; a Kafka Streams app with RocksDB beside it; restore.

The broker has its own process. Rows as in benchmarks/windows.py: one each millisecond, 1,000 keys, every tenth up to 5 s late. Wall
time from the first row taken to the last one done (ours: committed), both on the same broker, one after the other."""

from __future__ import annotations

import logging
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Producer as BareProducer

from benchmarks.windows import GRACE, input_rows
from streamactors import ActorSystem, Keep
from streamactors.broker import Cluster
from streamactors.collector import collecting_seldom
from streamactors.kafka import (
    Consumer,
    ConsumerSettings,
    ProducerRecord,
    ProducerSettings,
    Subscriptions,
    Transactional,
)
from streamactors.kafka.state.changelogs.changelog_topics import ChangelogTopics
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.definitions.windows import Windows
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory

Row = dict[str, Any]
ROWS, REPEATS, HELD, PEER_TIMEOUT_S = 300_000, 3, 1_000_000, 90
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
TUMBLING = TimeWindows.of_size("10s").with_grace(GRACE)


def produce(cluster: Cluster, topic: str, records: Iterator[tuple[bytes | str, bytes | None, int]]) -> None:
    """Write (key, value, timestamp) to a topic of one partition."""
    cluster.create_topic(topic, partitions=1)
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50, "batch.num.messages": 10_000}
    producer = BareProducer(settings)
    for key, value, timestamp in records:
        while True:
            try:
                producer.produce(topic, value, key, timestamp=timestamp)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def ours(cluster: Cluster, topic: str, out: str) -> float:
    """Seconds from the first row taken to the commit of the last."""
    cluster.create_topic(out, partitions=1)
    settings = ConsumerSettings(cluster.bootstrap_servers, out, "earliest")
    producer = ProducerSettings(cluster.bootstrap_servers, transactional_id=out)
    began: list[float] = []

    def begin(rows: list[Record]) -> list[Record]:
        if not began:
            began.append(time.perf_counter())
        return rows

    graph = (
        Consumer.records(settings, Subscriptions.topics(topic), key="string", until="end")
        .map_chunks(begin)
        .group_by_key()
        .windowed_by(TUMBLING)
        .count(name="counts")
        .suppress(CLOSED)
        .to_stream()
        .map(lambda row: ProducerRecord(out, b"%d" % row.value, row.key, None, row.timestamp))
        .to_mat(Transactional.sink(producer), Keep.both)
    )
    with ActorSystem("windows") as system:
        control, done = graph.run(system)
        done.result(timeout=600)
        spent = time.perf_counter() - began[0]
        control.is_shutdown.result(timeout=60)
    return spent


@contextmanager
def streams_app(program: str = "App") -> Iterator[list[str] | None]:
    """The command that starts a Kafka Streams app; None where Java or Maven are missing."""
    sources = Path(__file__).parent.parent / "tests" / "differential" / "kafka_streams"
    if not (shutil.which("java") and shutil.which("mvn") and sources.exists()):
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={out / 'classpath'}"]
        subprocess.run(["mvn", "-q", "-B", f"-Dout={out}", *goals], cwd=sources, check=True, stdout=subprocess.DEVNULL)
        path = f"{out / 'classes'}:{(out / 'classpath').read_text().strip()}"
        yield ["java", "-Xmx1g", f"-Djava.io.tmpdir={folder}", "-cp", path, program]


def theirs(app: list[str], cluster: Cluster, topic: str, out: str) -> float | None:
    """Seconds of the Kafka Streams app; None if it took too long."""
    cluster.create_topic(out, partitions=1)
    command = [*app, cluster.bootstrap_servers, topic, out, str(ROWS), "10000", str(GRACE)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PEER_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return None
    return next(int(line.split("\t")[1]) / 1_000 for line in run.stdout.splitlines() if line.startswith("MS"))


def topic_to_topic() -> Row:
    own: list[float] = []
    other: list[float] = []
    ratios: list[float] = []
    with Cluster(process=True) as cluster, streams_app() as app:
        # not from 0 on: librdkafka takes that for now
        produce(cluster, "rows", ((row.key, b"1", 1_000_000 + row.timestamp) for row in input_rows(ROWS)))
        for number in range(REPEATS):
            own.append(ours(cluster, "rows", f"ours-{number}"))
            peer = None if app is None else theirs(app, cluster, "rows", f"theirs-{number}")
            if peer is not None:
                other.append(peer)
                ratios.append(peer / own[-1])
    row: Row = {
        "name": f"Kafka topic → tumbling 10 s, count + suppress, changelog, transactional → topic, {ROWS:,} rows",
        "value": round(ROWS / statistics.median(own)),
        "unit": "rows/s",
        "target": ">= 60,000 rows/s",
    }
    if other:
        row["peer"] = f"Kafka Streams with RocksDB {round(ROWS / statistics.median(other)):,} rows/s"
        row["ratio"] = round(statistics.median(ratios), 2)
        row["spread"] = f"{min(ratios):.2f}–{max(ratios):.2f}"
    return row


OURS = """
import sys
from benchmarks.windows_kafka import CLOSED, TUMBLING
from streamactors import ActorSystem, Keep
from streamactors.kafka import Consumer, ConsumerSettings, ProducerRecord, ProducerSettings, Subscriptions, Transactional
servers, topic, out = sys.argv[1:]
settings = ConsumerSettings(servers, out, "earliest")
graph = (
    Consumer.records(settings, Subscriptions.topics(topic), key="string", value="json", until="end")
    .group_by_key()
    .windowed_by(TUMBLING)
    .count(name="counts")
    .suppress(CLOSED)
    .to_stream()
    .map(lambda row: ProducerRecord(out, b"%d" % row.value, row.key, None, row.timestamp))
    .to_mat(Transactional.sink(ProducerSettings(servers, transactional_id=out)), Keep.both)
)
with ActorSystem("windows") as system:
    control, done = graph.run(system)
    done.result(timeout=600)
    control.is_shutdown.result(timeout=60)
"""


def cpu_of(command: list[str]) -> float:
    """CPU seconds of a whole process, its start included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True, timeout=3 * PEER_TIMEOUT_S)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def processes_with_json() -> list[Row]:
    """CPU time of both applications as processes, in turn. Ours decodes the JSON values; Kafka Streams reads them as text."""
    rows: list[tuple[float, float]] = []
    with Cluster(process=True) as cluster, streams_app() as app:
        if app is None:
            return []
        value = b'{"n": 1, "city": "Bern"}'
        produce(cluster, "rows", ((row.key, value, 1_000_000 + row.timestamp) for row in input_rows(ROWS)))
        for number in range(REPEATS):
            out, peer = f"ours-{number}", f"theirs-{number}"
            cluster.create_topic(out, partitions=1)
            cluster.create_topic(peer, partitions=1)
            own = cpu_of([sys.executable, "-c", OURS, cluster.bootstrap_servers, "rows", out])
            other = cpu_of([*app, cluster.bootstrap_servers, "rows", peer, str(ROWS), "10000", str(GRACE)])
            rows.append((own, other))
    ratios = [other / own for own, other in rows]
    return [
        {
            "name": f"the same with JSON values, whole processes, {ROWS:,} rows",
            "value": round(ROWS / statistics.median(own for own, _ in rows)),
            "unit": "rows/CPU-s",
            "peer": f"Kafka Streams with RocksDB {round(ROWS / statistics.median(other for _, other in rows)):,} rows/CPU-s",
            "ratio": round(statistics.median(ratios), 2),
            "spread": f"{min(ratios):.2f}–{max(ratios):.2f}",
            "target": "ratio >= 2",
        }
    ]


def counting(windows: Windows) -> TaskFactory:
    stream = Records().group_by_key().windowed_by(windows).count(name="counts").suppress(CLOSED).to_stream()
    return tasks_of(stream, changelog=True)


def restore(kind: str, windows: Windows) -> Row:
    """A changelog of one million open windows, read and made into a task, in a process that `streamactors run` has started."""
    factory, step = counting(windows), 10_000
    task = factory(TaskIdentity("app"))
    for first in range(0, HELD, step):
        task.process_chunk(
            [Record(f"key-{n}", 1, 50_000, RecordContext("rows", 0, n)) for n in range(first, first + step)]
        )
    changes = task.changes()
    del task
    with Cluster(process=True) as cluster, collecting_seldom():
        cluster.create_topic("rows", partitions=1)
        topics = factory.changelog_topics("app")
        produce(cluster, topics["counts-store"], ((change.key, change.value, 1) for change in changes))
        del changes
        wall, cpu = time.perf_counter(), time.process_time()
        reader = ChangelogTopics(ConsumerSettings(cluster.bootstrap_servers, "app", "earliest"), topics)
        count, found = reader.read([TopicPartition("rows", 0)])
        factory.restored(TaskIdentity("app", 0, count), found[0])
        spent, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return {
        "name": f"restore of {HELD:,} {kind} from a changelog topic",
        "value": round(HELD / cpu),
        "unit": "entries/CPU-s",
        "spread": f"{spent:.1f} s of wall time",
        "target": ">= 300,000",
    }


RESTORED: dict[str, Windows] = {
    "tumbling windows": TUMBLING,
    "sessions": SessionWindows.with_gap("10s").with_grace(GRACE),
    "sliding windows": SlidingWindows.of_difference("10s").with_grace(GRACE),
}


def run(only: str = "") -> list[Row]:
    """Every row of the page; with `only` = `restore`, or `restore of …`, the restores alone."""
    logging.getLogger("streamactors").setLevel(logging.ERROR)
    rows = [] if only else [topic_to_topic(), *processes_with_json()]
    for kind, windows in RESTORED.items():
        if only in f"restore of {HELD:,} {kind} from a changelog topic":
            rows.append(restore(kind, windows))
    return rows
