"""Our broker under three controllers of Apache Kafka: snapshots of the metadata, and the death of the active controller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.wire_request import create_topic
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.member_node import MemberNode
from tests.differential.our_node import OurNode

pytestmark = [
    pytest.mark.differential,
    pytest.mark.slow,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]
IDS = (3001, 3002, 3003)


@pytest.fixture
def quorum(tmp_path: Path) -> Iterator[dict[int, ApacheNode]]:
    ports = dict(zip(IDS, _free_ports(3), strict=True))
    voters = ",".join(f"{each}@127.0.0.1:{port}" for each, port in ports.items())
    settings = {"metadata.log.max.record.bytes.between.snapshots": "1500", "broker.session.timeout.ms": "3000"}
    nodes = {
        each: ApacheNode(tmp_path / str(each), each, "controller", voters=voters, port=port, settings=settings)
        for each, port in ports.items()
    }
    for node in nodes.values():
        node.start()
    yield nodes
    for node in nodes.values():
        node.kill()


def active(nodes: dict[int, ApacheNode], alive: ApacheNode) -> int:
    told = apache.tool(
        "org.apache.kafka.tools.MetadataQuorumCommand", "--bootstrap-controller", alive.address, "describe", "--status"
    )
    (leader,) = [int(line.split()[1]) for line in told.splitlines() if line.startswith("LeaderId:")]
    return leader


def test_a_member_outlives_the_active_controller_and_a_new_one_begins_with_a_snapshot(
    quorum: dict[int, ApacheNode], tmp_path: Path
) -> None:
    ports = [node.port for node in quorum.values()]
    ours = OurNode(tmp_path / "ours", 2, ",".join(f"127.0.0.1:{port}" for port in ports))
    ours.start()
    try:
        for number in range(15):
            create_topic(ours.address, f"before-{number}", 2, {})
        leader = active(quorum, quorum[IDS[0]])
        quorum[leader].kill()
        began = time.monotonic()
        while True:  # until the survivors have elected, and this broker has found them
            try:
                create_topic(ours.address, "after", 2, {})
                break
            except Exception:
                assert time.monotonic() < began + 60
        folder = tmp_path / "new"
        with MemberNode(folder, 5, CLUSTER_ID, *ports) as node:
            topics = node.await_image(lambda image: "after" in image.topics).topics
            assert set(topics) == {"after", *(f"before-{number}" for number in range(15))}
            assert node.runtime.metadata.image.brokers[2].endpoints
        assert list((folder / "__cluster_metadata-0").glob("*.checkpoint")), "the log was read from its beginning"
        first = min((folder / "__cluster_metadata-0").glob("*.log"))
        assert int(first.stem) > 0
    finally:
        ours.stop()
