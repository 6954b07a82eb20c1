"""Classic groups beside Apache Kafka 4.4.0: the same random histories, the same answers and assignments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache
from tests.differential.classic_history import PARTITIONS, History
from tests.differential.coordinator_steps import play
from tests.differential.group_requests import TOPIC, awaited, find, topic_of
from tests.differential.history_count import histories, within_s

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(within_s(40)),
]

SEEDS = range(histories(40))
STEPS = 12
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


def told_by(address: str) -> list[list[Any]]:
    """Play all histories; return what was told."""
    play(address, [topic_of(TOPIC, PARTITIONS), find("the coordinator", 3, 0, "g"), awaited("g")])
    return [History(address, seed).run(STEPS) for seed in SEEDS]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[Any]], list[list[Any]]]:
    """What Apache Kafka and this broker told."""
    their_folder = Path(tmp_path_factory.mktemp("kafka")) / "data"
    kafka = apache.ApacheKafka(their_folder, settings=dict(SETTINGS))
    kafka.start()
    try:
        theirs = told_by(kafka.address)
    finally:
        kafka.stop()
    our_folder = Path(tmp_path_factory.mktemp("ours")) / "data"
    with Cluster(process=True, listen="127.0.0.1:0", data=our_folder, config=dict(SETTINGS)) as cluster:
        ours = told_by(cluster.bootstrap_servers)
    return theirs, ours


def test_every_answer_is_apache_kafkas(both: tuple[list[list[Any]], list[list[Any]]]) -> None:
    answers = 0
    for seed, theirs, ours in zip(SEEDS, both[0], both[1], strict=True):
        for at, (expected, got) in enumerate(zip(theirs, ours, strict=True)):
            assert got == expected, f"history {seed}, step {at}: {theirs[:at]}"
        answers += len(theirs)
    print(f"{len(SEEDS)} histories, {answers} answers")
    assert answers > 10 * len(SEEDS)
