"""A Kafka Streams application on Apache Kafka 4.4.0 and on this broker: groups of Streams, transactions, changelogs, repartition topics."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.differential.apache_kafka import broker as apache
from tests.differential.kafka_streams.build import classpath

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not (shutil.which("java") and shutil.which("mvn")), reason="Java or Maven is not here"),
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> str:
    return classpath(tmp_path_factory.mktemp("kafka-streams"))


def play(classes: str, bootstrap: str, guarantee: str, folder: Path, protocol: str = "classic") -> str:
    """Run the application to its end and return what it printed."""
    folder.mkdir()
    java = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", f"-Djava.io.tmpdir={folder}", "-cp", classes]
    ran = subprocess.run(
        [*java, "Application", bootstrap, guarantee, protocol], capture_output=True, text=True, check=False, timeout=400
    )
    assert ran.returncode == 0, f"{ran.stdout}{ran.stderr[-3000:]}"
    return ran.stdout


@pytest.mark.parametrize(
    ("guarantee", "protocol"),
    [
        ("exactly_once_v2", "classic"),
        ("at_least_once", "classic"),
        ("exactly_once_v2", "streams"),
        ("at_least_once", "streams"),
    ],
)
def test_the_application_gives_what_it_gives_on_apache_kafka(
    classes: str, tmp_path: Path, guarantee: str, protocol: str
) -> None:
    kafka = apache.ApacheKafka(tmp_path / "data")
    kafka.start()
    try:
        theirs = play(classes, kafka.address, guarantee, tmp_path / "theirs", protocol)
    finally:
        kafka.kill()
    with Cluster(process=True, config={"group.initial.rebalance.delay.ms": 0}) as cluster:
        ours = play(classes, cluster.bootstrap_servers, guarantee, tmp_path / "ours", protocol)
    assert ours == theirs
    assert "counted {w0=200, w1=200, " in ours
    if guarantee == "exactly_once_v2":
        assert "joined 4000 [n0=w0, " in ours
