"""The listener for clients serves the APIs that Apache Kafka 4.4.0 serves there: the same keys, in the same versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

API_VERSIONS, INIT_PRODUCER_ID = 18, 22
TELEMETRY = {71: (0, 0), 72: (0, 0)}
"""Both brokers list these where somebody receives the metrics that clients push: a plug-in there, /metrics here."""
DIFFERENCES = {INIT_PRODUCER_ID: ((0, 5), (0, 6))}
"""Version 6, two-phase commit (KIP-939), is served; Apache Kafka has it, and lists it with unstable.api.versions.enable only."""
ALL = 79


def listed(address: str) -> dict[int, tuple[int, int]]:
    """Return the versions of each key that a broker lists."""
    host, _, port = address.rpartition(":")
    with WireClient(host, int(port)) as client:
        answer = client.call(API_VERSIONS, 4, {"client_software_name": "x", "client_software_version": "1"})
    assert answer.error_code == 0
    return {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> dict[int, tuple[int, int]]:
    kafka = apache.ApacheKafka(Path(tmp_path_factory.mktemp("kafka")) / "data")
    kafka.start()
    try:
        return listed(kafka.address)
    finally:
        kafka.kill()


def test_the_keys_and_their_versions_are_apache_kafkas(theirs: dict[int, tuple[int, int]]) -> None:
    with Cluster(listen="127.0.0.1:0") as cluster:
        ours = listed(cluster.bootstrap_servers)
    assert len(ours) == len(theirs) == ALL - len(TELEMETRY)
    assert {
        key: (theirs.get(key), ours.get(key)) for key in theirs | ours if theirs.get(key) != ours.get(key)
    } == DIFFERENCES


def test_with_a_receiver_of_metrics_all_keys_are_listed(theirs: dict[int, tuple[int, int]]) -> None:
    with Cluster(listen="127.0.0.1:0", metrics_port=0) as cluster:
        ours = listed(cluster.bootstrap_servers)
    assert ours.keys() == theirs.keys() | TELEMETRY.keys()
    assert {key: ours[key] for key in TELEMETRY} == TELEMETRY
    assert len(ours) == ALL
