"""Fetch sessions (KIP-227) beside Apache Kafka 4.4.0: every answer of a session is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache
from tests.differential.session_script import PARTITIONS, TOPIC, Conversation

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def played(address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    with WireClient(host, int(port)) as client:
        topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 1, "configs": []}
        assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
        conversation = Conversation(client)
        while any(error for error, _, _, _ in conversation.fetch(-1, dict.fromkeys(range(PARTITIONS), 0))[2].values()):
            pass  # the leaders are not known yet
        return dict(conversation.play())


def test_every_answer_of_a_session_is_the_same(tmp_path: Path) -> None:
    their_broker = apache.ApacheKafka(tmp_path)
    their_broker.start()
    try:
        theirs = played(their_broker.address)
    finally:
        their_broker.stop()
    with Cluster() as cluster:
        ours = played(cluster.bootstrap_servers)
    assert {step: (theirs[step], ours[step]) for step in theirs if theirs[step] != ours[step]} == {}
