"""A process that waits for work uses less than 2 % of a core: the broker after every kind of request, and streams of every kind.

Counted wake-ups find a loop that spins in the fast tests (`spinning.py`); the time of whole processes finds also what no loop of ours does."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streamactors.broker import Cluster
from tests.watch.idle_programs import PROGRAMS, RECORDS, TOPIC

ROOT = Path(__file__).resolve().parents[2]
WINDOW_S = 2.0
SHARE = 0.02
WINDOWS = 10
"""A process may still tidy up after its work: one of so many windows has to be quiet."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        cluster.create_topic(TOPIC, config={"flush.messages": "1"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce(TOPIC, b"%d" % number, timestamp=number + 1)
        assert producer.flush(30) == 0
        yield cluster


def cpu_s(pid: int) -> float:
    """The processor time of a process and of its children that run."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    own = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    of_threads = [
        each for task in Path(f"/proc/{pid}/task").iterdir() for each in (task / "children").read_text().split()
    ]
    return own + sum(cpu_s(int(child)) for child in {*children, *of_threads})


def smallest_share(pid: int) -> float:
    """The share of a core in the first window in which it was small enough, or the smallest of all."""
    shares = []
    for _ in range(WINDOWS):
        before, began = cpu_s(pid), time.monotonic()
        time.sleep(WINDOW_S)
        shares.append((cpu_s(pid) - before) / (time.monotonic() - began))
        if shares[-1] < SHARE:
            break
    return min(shares)


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
