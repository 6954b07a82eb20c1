"""The power fails for all three nodes at once: what was acknowledged with acks=all and flush.messages=1 is there afterwards."""

from __future__ import annotations

import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import confluent_kafka
import pytest

from streamactors.broker import Cluster
from tests.faults.chaos import ROOT
from tests.faults.sabotage.forgetful_files import SHADOW, cut_power

CUTS = 3
NODES = (1, 2, 3)


@pytest.fixture
def shadow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that keeps what the nodes have synced; nodes that start from now on use it."""
    folder = tmp_path / "shadow"
    folder.mkdir()
    before = os.environ.get("PYTHONPATH")
    sabotage = str(ROOT / "tests" / "faults" / "sabotage")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([sabotage, str(ROOT), *([before] if before else [])]))
    monkeypatch.setenv(SHADOW, str(folder))
    return folder


def acknowledged(cluster: Cluster, topic: str, first: int) -> list[tuple[str, bytes]]:
    """Write until a thousand records are acknowledged, then cut the nodes off in the middle of the next ones. Return the acknowledged ones."""
    found: list[tuple[str, bytes]] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 1, "enable.idempotence": True}
    )

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        if error is None:
            found.append((topic, message.value()))

    number = first
    give_up = time.monotonic() + 60
    while len(found) < 1_000:
        assert time.monotonic() < give_up, f"{len(found)} records were acknowledged within a minute"
        if len(producer) < 200:
            producer.produce(topic, b"%d" % number, on_delivery=delivered)
            number += 1
        producer.poll(0 if len(producer) < 200 else 0.01)
    for node in NODES:
        cluster.kill(node)
    producer.purge()
    producer.flush(5)
    return found


def run(tmp_path: Path, shadow: Path, config: dict[str, str]) -> None:
    data = tmp_path / "data"
    with Cluster(brokers=3, data=data) as cluster:
        cluster.create_topic("t", 2, config)
        acked: list[tuple[str, bytes]] = []
        for cut in range(CUTS):
            acked += acknowledged(cluster, "t", cut * 1_000_000)
            cut_power(data, shadow)
            shutil.rmtree(shadow)
            shadow.mkdir()
            with ThreadPoolExecutor(len(NODES)) as pool:
                list(pool.map(cluster.start, NODES))
            for partition in range(2):
                cluster.await_isr("t", partition, NODES, timeout=60)
        assert cluster.acked_check(acked) == len(acked) >= 1_000 * CUTS


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_was_flushed_before_it_was_acknowledged_survives(tmp_path: Path, shadow: Path) -> None:
    run(tmp_path, shadow, {"flush.messages": "1"})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_without_flushes_acknowledged_records_are_lost(tmp_path: Path, shadow: Path) -> None:
    """The disk really forgets: three copies in memory are none when the power fails for all."""
    with pytest.raises(AssertionError, match="are missing"):
        run(tmp_path, shadow, {})
