"""Ten times the data needs at most the same memory, in every scenario and in the broker that serves it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors import Source
from streamactors.broker import Cluster
from streamactors.kafka import Producer, ProducerRecord, ProducerSettings
from tests.watch.scenarios import SCENARIOS, TOPIC

ROOT = Path(__file__).resolve().parents[2]
COUNT = 30_000
ALLOWANCE_MB = 24
"""What the allocator may keep of larger heaps. Ten times the elements, kept, would be 270,000 of at least 100 bytes: 27 MB or more."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss in kB"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(process=True) as cluster:
        cluster.create_topic("copied")
        for count in (COUNT, 10 * COUNT):
            topic = TOPIC.format(count=count)
            cluster.create_topic(topic)
            numbers = Source.range(count).map(
                lambda n, topic=topic: ProducerRecord(topic, n.to_bytes(4, "big"), timestamp=n + 1)
            )
            numbers.run_with(Producer.plain_sink(ProducerSettings(cluster.bootstrap_servers))).result(300)
        yield cluster


def peak_mb(name: str, count: int, bootstrap: str) -> int:
    command = [sys.executable, "-m", "tests.watch.scenarios", name, str(count), bootstrap]
    return int(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()[-1])


def resident_mb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) // 1_024


@pytest.mark.parametrize("name", SCENARIOS)
def test_ten_times_the_elements_need_no_more_memory(name: str, cluster: Cluster) -> None:
    once = peak_mb(name, COUNT, cluster.bootstrap_servers)
    broker_once = resident_mb(cluster.pid)
    tenfold = peak_mb(name, 10 * COUNT, cluster.bootstrap_servers)
    broker_tenfold = resident_mb(cluster.pid)
    assert tenfold <= once + ALLOWANCE_MB, (
        f"{name}: {once} MB for {COUNT:,} elements, {tenfold} MB for ten times as many"
    )
    assert broker_tenfold <= broker_once + ALLOWANCE_MB, f"the broker: {broker_once} MB, then {broker_tenfold} MB"
