"""A broker of Apache Kafka that joins our controller late: it reads our snapshot in pieces, and then the log behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamactors.broker.controller import metadata_log
from streamactors.broker.wire_request import create_topic
from tests.broker.live_broker import LiveBroker
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.mixed_cluster import wait_until

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def test_a_broker_of_theirs_begins_with_our_snapshot_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_log, "MAX_PIECE_BYTES", 300)
    (port,) = _free_ports(1)
    settings = {
        "node.id": 3000,
        "listeners": f"PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "metadata.log.max.record.bytes.between.snapshots": 1,
    }
    with LiveBroker(tmp_path / "c", settings) as ours:
        for number in range(10):
            create_topic(ours.address, f"topic-{number}", 3, {})
        theirs = ApacheNode(tmp_path / "b", 1, "broker", voters=f"3000@127.0.0.1:{port}", features_off=())
        theirs.cluster_id = ours.node.cluster_id
        theirs.start()
        try:
            theirs.await_broker()
            fetched = list((tmp_path / "b" / "__cluster_metadata-0").glob("*.checkpoint"))
            assert [each for each in fetched if not each.name.startswith("0" * 20 + "-")]
            assert max(each.stat().st_size for each in fetched) > 900  # several pieces
            told = apache.tool("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", theirs.address, "--list")
            assert set(told.split()) >= {f"topic-{number}" for number in range(10)}
            create_topic(ours.address, "behind-the-snapshot", 1, {})
            wait_until(
                lambda: (
                    "behind-the-snapshot"
                    in apache.tool(
                        "org.apache.kafka.tools.TopicCommand", "--bootstrap-server", theirs.address, "--list"
                    )
                ),
                lambda: "the log behind the snapshot is read",
            )
        finally:
            theirs.kill()
