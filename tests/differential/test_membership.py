"""Our broker's membership beside controllers of Apache Kafka: registration, heartbeats, fencing, departure, refusals."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.controller.rules.release_levels import default_levels
from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from tests.differential.apache_kafka import broker as apache
from tests.differential.apache_kafka.broker import CLUSTER_ID, _free_ports
from tests.differential.apache_kafka.cluster import ApacheNode
from tests.differential.member_node import MemberNode

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(300),
]


def controller(folder: Path, **options: object) -> ApacheNode:
    (port,) = _free_ports(1)
    return ApacheNode(folder, 3000, "controller", voters=f"3000@127.0.0.1:{port}", port=port, **options)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApacheNode]:
    node = controller(tmp_path_factory.mktemp("quorum") / "c", settings={"broker.session.timeout.ms": "3000"})
    node.start()
    yield node
    node.kill()


def test_our_broker_is_an_observer_and_a_live_broker_and_leaves_in_order(quorum: ApacheNode, tmp_path: Path) -> None:
    with MemberNode(tmp_path, 2, CLUSTER_ID, quorum.port) as node:
        image = node.await_image(lambda image: not image.brokers[2].fenced)
        levels = {name: level for name, level in default_levels().items() if name != "kraft.version"}
        assert image.features == levels
        assert image.brokers[2].log_dirs == (node.runtime.logs.properties.directory_id,)
        told = apache.tool(
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-controller",
            quorum.address,
            "describe",
            "--replication",
        )
        (observer,) = [line.split() for line in told.splitlines() if "Observer" in line and line.startswith("2 ")]
        assert observer[0] == "2"
        assert int(observer[3]) <= 5  # the lag, in records
        assert node.life.leave(30) == image.brokers[2].broker_epoch
    assert not node.failures


def test_the_copy_of_the_metadata_is_kept_and_read_again_after_a_restart(quorum: ApacheNode, tmp_path: Path) -> None:
    with MemberNode(tmp_path, 4, CLUSTER_ID, quorum.port, session_ms=3_000) as node:
        first = node.runtime.metadata.image.brokers[4]
        node.life.leave(30)
    with MemberNode(
        tmp_path, 4, CLUSTER_ID, quorum.port, session_ms=3_000
    ) as node:  # waits for the session of the first process to end
        second = node.runtime.metadata.image.brokers[4]
        assert second.broker_epoch > first.broker_epoch
        assert second.incarnation_id != first.incarnation_id
        assert second.log_dirs == first.log_dirs


@pytest.mark.expects_log("are not of cluster another")
def test_a_broker_of_another_cluster_is_refused_with_the_reason(quorum: ApacheNode, tmp_path: Path) -> None:
    with (
        pytest.raises(BrokerStartError, match=r"the controllers at 127\.0\.0\.1:\d+ are not of cluster another"),
        MemberNode(tmp_path, 2, "another", quorum.port),
    ):
        pass


def test_a_controller_that_dies_and_comes_back_finds_the_broker_again(tmp_path: Path) -> None:
    node = controller(tmp_path / "c")
    node.start()
    try:
        with MemberNode(tmp_path / "m", 2, CLUSTER_ID, node.port) as ours:
            epoch = ours.life.broker_epoch
            offset = ours.runtime.metadata.image.offset
            node.kill()
            node.start()
            told = apache.tool(
                "org.apache.kafka.tools.MetadataQuorumCommand",
                "--bootstrap-controller",
                node.address,
                "describe",
                "--status",
            )
            assert "LeaderEpoch:            2" in told
            assert ours.life.leave(30) == epoch
            assert ours.runtime.metadata.image.offset > offset
            assert not ours.failures
    finally:
        node.kill()


@pytest.mark.expects_log("gone-0 is not on this broker, as the metadata says")
def test_logs_that_the_cluster_does_not_know_are_set_aside_at_the_start(quorum: ApacheNode, tmp_path: Path) -> None:
    with MemberNode(tmp_path, 6, CLUSTER_ID, quorum.port, session_ms=3_000) as node:
        log = node.runtime.logs.create("gone", 0, uuid.uuid4(), LogConfig())
        log.append_as_leader(memoryview(build_batch([NewRecord(None, b"v", 1)])), 0, 1)
        node.life.leave(30)
    assert (tmp_path / "gone-0").exists()
    with MemberNode(tmp_path, 6, CLUSTER_ID, quorum.port, session_ms=3_000) as node:
        assert node.runtime.logs.get("gone", 0) is None
        assert not (tmp_path / "gone-0").exists()
        assert len(list(tmp_path.glob("gone-0.*-stray"))) == 1
