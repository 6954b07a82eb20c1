"""A process that waits for work uses less than 2 % of a core: the broker after every kind of request, streams of every kind, examples, and the
programs of every page. `python -m benchmarks` looks at itself after each benchmark.

Counted wake-ups find a loop that spins in the fast tests (`spinning.py`); the time of whole processes finds also what no loop of ours does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks._idle import SHARE, is_watched, smallest_share
from streamactors.broker import Cluster
from tests.docs.pages import PAGES, blocks
from tests.watch.idle_pages import IDLE
from tests.watch.idle_programs import PROGRAMS, RECORDS, TOPIC

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not is_watched(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        cluster.create_topic(TOPIC, config={"flush.messages": "1"})
        for topic in ("flights", "orders"):  # which pages assume
            cluster.create_topic(topic)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, timestamp=number + 1)
        assert producer.flush(30) == 0
        yield cluster


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_waits_for_work_is_idle(name: str, cluster: Cluster) -> None:
    command = [sys.executable, "-m", "tests.watch.idle_programs", name, cluster.bootstrap_servers]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "idle\n"
            assert smallest_share(process.pid) < SHARE
            assert smallest_share(cluster.pid) < SHARE
        finally:
            process.kill()


WRITTEN = [*sorted((ROOT / "examples").glob("*.py")), *(page for page in PAGES if blocks(page))]


@pytest.mark.timeout(900)  # the pages about Spark start one
@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.name)
def test_an_example_or_page_is_idle_after_its_work(path: Path, cluster: Cluster, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.watch.idle_pages", str(path), cluster.bootstrap_servers]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert any(IDLE in line for line in process.stdout), "the program has failed"
            assert smallest_share(process.pid) < SHARE
        finally:
            process.kill()
    assert smallest_share(cluster.pid) < SHARE


def test_a_broker_is_idle_after_a_commit_and_beside_an_idle_producer(cluster: Cluster) -> None:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "idle", "enable.auto.commit": False}
    )
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "batch.num.messages": 1})
    for number in range(200):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(30) == 0
    consumer.subscribe([TOPIC])
    consumer.poll(10)
    consumer.commit(offsets=[TopicPartition(TOPIC, 0, 1)], asynchronous=False)
    try:
        assert smallest_share(cluster.pid) < SHARE
    finally:
        consumer.close()
