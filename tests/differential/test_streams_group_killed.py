"""Instances of a Kafka Streams application in a streams group are killed while it counts exactly once, and so is the broker."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import confluent_kafka
import pytest

from streamactors.broker import Cluster
from tests.differential.kafka_streams.build import classpath

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]

WORDS, ROUND = 20, 2_000
SETTINGS = {
    "group.streams.min.session.timeout.ms": 6_000,
    "group.streams.session.timeout.ms": 6_000,
    "group.streams.min.heartbeat.interval.ms": 500,
    "group.streams.heartbeat.interval.ms": 500,
    "group.streams.num.standby.replicas": 1,
}
SOON_S = 120


@contextmanager
def instance(classes: str, bootstrap: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    folder.mkdir()
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}", "-cp", classes]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen([*java, "Counting", bootstrap, str(folder / "state")], stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def write(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for number in range(ROUND):
        producer.produce("words", f"w{number % WORDS}")
    assert producer.flush(60) == 0


def await_counts(bootstrap: str, each: int, describe: Callable[[], str]) -> None:
    """Wait until every word was counted `each` times. A count that is larger was counted twice."""
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": f"reader-{each}", "auto.offset.reset": "earliest",
         "isolation.level": "read_committed", "enable.auto.commit": False}
    )  # fmt: skip
    consumer.subscribe(["counts"])
    found: dict[bytes, int] = {}
    give_up = time.monotonic() + SOON_S
    while len(found) < WORDS or min(found.values()) < each:
        assert time.monotonic() < give_up, f"{found}\n{describe()}"
        message = consumer.poll(1)
        if message is not None and message.error() is None:
            key, value = message.key(), message.value()
            assert key is not None
            assert value is not None
            assert int(value) > found.get(key, 0), "a count went back"
            found[key] = int(value)
            assert found[key] <= each, "a word was counted twice"
    consumer.close()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath(tmp_path_factory.mktemp("kafka-streams"))


def test_a_killed_instance_s_tasks_go_on_elsewhere_exactly_once(classes: str, tmp_path: Path) -> None:
    with Cluster(process=True, config=SETTINGS) as cluster:
        bootstrap = cluster.bootstrap_servers
        cluster.create_topic("words", 4)
        cluster.create_topic("counts", 2)

        def logs() -> str:
            return "\n".join(each.read_text()[-2_000:] for each in tmp_path.glob("*/log"))

        with instance(classes, bootstrap, tmp_path / "a") as first:
            with instance(classes, bootstrap, tmp_path / "b"):
                write(bootstrap)
                await_counts(bootstrap, ROUND // WORDS, logs)
                write(bootstrap)
                first.kill()
                await_counts(bootstrap, 2 * ROUND // WORDS, logs)
                with instance(classes, bootstrap, tmp_path / "c"):
                    write(bootstrap)
                    await_counts(bootstrap, 3 * ROUND // WORDS, logs)
