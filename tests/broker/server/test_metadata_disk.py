"""A node of a cluster whose disk takes no metadata any more: the node ends, and the others go on without it.

It went on to serve with the metadata of that moment. Apache Kafka's process ends, too."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.failing_folder import FailingDisk
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_three_controllers import create
from tests.broker.server.three_controllers import ThreeControllers
from tests.broker.wire import wait_until

METADATA = "__cluster_metadata-0"


def topic(name: str, replicas: list[int]) -> dict[str, Any]:
    assignments = [{"partition_index": 0, "broker_ids": replicas}]
    asked = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": ()}
    return {"topics": [asked], "timeout_ms": 30_000}


def created(live: LiveBroker, name: str) -> bool:
    with live.client() as client:
        return create(client, name, 1).error_code in (0, ErrorCode.TOPIC_ALREADY_EXISTS)


def ended(node: int, folder: Path) -> str:
    return (
        f"broker {node} ends, because its data folder {folder}, which has the metadata log, has failed: Input/output error; "
        "repair the disk and start the broker again"
    )


@pytest.mark.slow
@pytest.mark.expects_log(
    "repair the disk and start the broker",
    "no longer takes part in the quorum of the metadata log",
    "the metadata cannot be read again",
    "the metadata is read again from its log",
    "the metadata log cannot be written",
)
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_controller_with_a_broken_disk_ends_and_comes_back(tmp_path: Path, leads: bool) -> None:
    # A broker that has ended may register again when its session is over.
    cluster = ThreeControllers(tmp_path, broker_session_timeout_ms=2_000)
    disks = {node: FailingDisk() for node in cluster.ports}
    cluster.disks.update(disks)
    with cluster:
        leader = cluster.leader()
        broken = leader if leads else next(node for node in cluster.nodes if node != leader)
        failures = cluster.nodes[broken].broker.failures
        with cluster.nodes[broken].client() as client:
            # The next no-op record is enough: nobody asks for anything.
            disks[broken].fail(tmp_path / str(broken) / METADATA, errno.EIO)
            wait_until(lambda: failures.ended is not None, "the node ends")
            assert client.closed_by_peer()
        assert str(failures.ended) == ended(broken, tmp_path / str(broken))
        cluster.stop(broken)
        other = cluster.nodes[cluster.leader()]
        wait_until(lambda: created(other, "after"), "the others take changes")
        disks[broken].broken.clear()
        cluster.start(broken)
        cluster.await_topic("after")


@pytest.mark.expects_log("metadata log cannot be stored", "repair the disk and start the broker")
def test_a_broker_that_cannot_store_the_metadata_ends(tmp_path: Path) -> None:
    cluster = ThreeBrokers(tmp_path)
    cluster.disks[3] = disk = FailingDisk()
    with cluster:
        failures = cluster.brokers[3].broker.failures
        with cluster.brokers[3].client() as client:
            disk.fail(tmp_path / "3" / METADATA, errno.EIO)
            wait_until(lambda: created(cluster.brokers[1], "orders"), "the controller has a topic")
            wait_until(lambda: failures.ended is not None, "broker 3 ends")
            assert client.closed_by_peer()
        assert str(failures.ended) == ended(3, tmp_path / "3")
        cluster.stop(3)
        disk.broken.clear()
        cluster.join(3)
        assert "orders" in cluster.brokers[3].node.metadata.image.topics


def test_the_only_controller_of_a_cluster_ends_without_a_traceback(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cluster = ThreeBrokers(tmp_path, controlled_shutdown_enable=False)
    cluster.disks[1] = disk = FailingDisk()
    with cluster:
        failures = cluster.brokers[1].broker.failures
        with cluster.brokers[1].client() as client, cluster.brokers[1].client() as other:
            assert client.call(19, 7, topic("led", [1, 2])).topics[0].error_code == 0
            cluster.await_partition("led", lambda each: set(each.isr) == {1, 2}, "both are in sync")
            disk.fail(tmp_path / "1" / METADATA, errno.EIO)
            client.send(19, 7, topic("refused", [2]))
            wait_until(lambda: failures.ended is not None, "the controller ends")
            assert other.closed_by_peer()
        assert str(failures.ended) == ended(1, tmp_path / "1")
        cluster.stop(1)
    assert [each.getMessage() for each in caplog.records if each.exc_info is not None] == []


@pytest.mark.expects_log(
    "the metadata log cannot be written", "the partition is offline for writes", "was not closed cleanly"
)
def test_a_node_on_its_own_serves_what_it_can(tmp_path: Path) -> None:
    disk = FailingDisk()
    with LiveBroker(tmp_path, disk=disk) as live, live.client() as client:
        live.create_topic("orders")
        disk.fail(tmp_path / METADATA, errno.EIO)
        assert create(client, "refused", 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert live.broker.failures.ended is None
        described = client.call(3, 9, {"topics": None, "allow_auto_topic_creation": False})
        assert [topic.name for topic in described.topics] == ["orders"]
