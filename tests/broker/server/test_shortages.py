"""A broker that has no descriptor or no space for a while: it serves again by itself, and others lead what it cannot write.

Before, the first such error took a partition out of service until a restart, left the leadership where it was, and ended controllers."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum import observer, quorum
from streamactors.broker.server import metadata_publisher, shortages
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.failing_folder import FailingDisk
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_folder_failures import TwoFolders, fetched, produced
from tests.broker.server.test_metadata_disk import created, topic
from tests.broker.server.three_controllers import ThreeControllers
from tests.broker.wire import WireClient, wait_until

pytestmark = pytest.mark.expects_log("is over; its partitions take records again", "its partitions may refuse records")


STORAGE = ErrorCode.KAFKA_STORAGE_ERROR
BOTH = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOSPC], ids=["descriptors", "space"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, and lose patience soon."""
    for module, name, ms in (
        (shortages, "LOOK_MS", 20.0),
        (shortages, "LASTS_MS", 100.0),
        (metadata_publisher, "AGAIN_MS", 20.0),
        (quorum, "AGAIN_MS", 20.0),
        (quorum, "SHORTAGE_LASTS_MS", 100.0),
        (observer, "SHORTAGE_RETRY_MS", 20.0),
    ):
        monkeypatch.setattr(module, name, ms)


@pytest.fixture
def two(tmp_path: Path) -> TwoFolders:
    return TwoFolders(tmp_path)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ThreeBrokers]:
    cluster = ThreeBrokers(tmp_path, replica_lag_time_max_ms=500, auto_leader_rebalance_enable="false")
    cluster.disks = {each: FailingDisk() for each in (1, 2, 3)}
    with cluster:
        yield cluster
        for disk in cluster.disks.values():
            assert isinstance(disk, FailingDisk)
            disk.broken.clear()


def described(client: WireClient) -> dict[str, Any]:
    return {each.log_dir: each for each in client.call(35, 4, {"topics": None}).results}


def committed(client: WireClient) -> int:
    """Commit an offset, after the coordinator was found."""
    client.call(10, 3, {"key": "group", "key_type": 0})
    partition = {"partition_index": 0, "committed_offset": 1, "committed_leader_epoch": -1, "committed_metadata": ""}
    body = {
        "group_id": "group",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [partition]}],
    }
    code: int = client.call(8, 7, body).topics[0].partitions[0].error_code
    return code


@BOTH
def test_everything_is_served_again_when_it_is_over(
    tmp_path: Path, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    disk = FailingDisk()
    with LiveBroker(tmp_path, {"offsets.topic.num.partitions": 1}, disk=disk) as live, live.client() as client:
        live.create_topic("orders")
        assert produced(client, "orders") == 0
        wait_until(lambda: committed(client) == 0)
        live.partition("orders").log.close_idle()
        caplog.clear()
        disk.fail(tmp_path, number)
        for _ in range(3):
            assert produced(client, "orders") == STORAGE
            assert committed(client) == ErrorCode.NOT_COORDINATOR
        with live.client() as other:
            asked = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 30_000}
            assert other.call(19, 7, asked).topics[0].error_code == STORAGE
        assert described(client)[str(tmp_path)].error_code == STORAGE
        disk.broken.clear()
        wait_until(lambda: described(client)[str(tmp_path)].error_code == 0, "the folder has room again")
        assert produced(client, "orders") == 0
        assert committed(client) == 0
        live.create_topic("new")
        assert produced(client, "new") == 0
        assert fetched(client, "orders") == (0, 2)
    told = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert len(told) == 2, told
    assert "its partitions may refuse records until this is over" in told[0]
    assert "is over; its partitions take records again" in told[1]


@BOTH
def test_only_the_folder_that_is_short_is_described_so(two: TwoFolders, number: int) -> None:
    with two.start() as live, live.client() as client:
        two.create(live)
        for partition in range(2):
            live.partition("in-1", partition).log.close_idle()
        two.disk.fail(two.folders[1], number)
        assert produced(client, "in-1") == STORAGE
        assert produced(client, "in-0") == 0
        short = described(client)[str(two.folders[1])]
        assert (short.error_code, [each.name for each in short.topics]) == (STORAGE, ["in-1"])
        assert described(client)[str(two.folders[0])].error_code == 0
        two.disk.broken.clear()
        wait_until(lambda: described(client)[str(two.folders[1])].error_code == 0)
        assert produced(client, "in-1") == 0


@BOTH
def test_another_replica_leads_while_it_lasts_and_the_broker_follows_it_afterwards(
    three: ThreeBrokers, number: int
) -> None:
    with three.brokers[1].client() as client:
        assert client.call(19, 7, topic("orders", [2, 3, 1])).topics[0].error_code == 0
    three.await_partition("orders", lambda each: len(each.isr) == 3, "all replicas are in sync", seen_by=2)
    with three.brokers[2].client() as client:
        assert produced(client, "orders", acks=-1) == 0
        three.brokers[2].partition("orders").log.close_idle()
        disk = three.disks[2]
        assert isinstance(disk, FailingDisk)
        disk.fail(three._folder / "2", number)
        assert produced(client, "orders", acks=-1) == STORAGE
        three.await_partition("orders", lambda each: each.leader == 3, "another replica leads")
        wait_until(lambda: produced(client, "orders") == ErrorCode.NOT_LEADER_OR_FOLLOWER, "the old leader knows it")
    with three.brokers[3].client() as client:
        wait_until(lambda: produced(client, "orders", acks=-1) == 0, "the new leader takes records")
        disk.broken.clear()
        three.await_partition("orders", lambda each: set(each.isr) == {1, 2, 3}, "the replica is in sync again")
        assert produced(client, "orders", acks=-1) == 0
        end = three.brokers[3].partition("orders").log_end_offset
        wait_until(lambda: three.brokers[2].partition("orders").log_end_offset == end, "it has every record")
    assert three.brokers[2].broker.failures.ended is None


@BOTH
def test_a_follower_that_is_short_leaves_the_isr_and_comes_back(three: ThreeBrokers, number: int) -> None:
    with three.brokers[1].client() as client:
        assert client.call(19, 7, topic("orders", [3, 2, 1])).topics[0].error_code == 0
    three.await_partition("orders", lambda each: len(each.isr) == 3, "all replicas are in sync", seen_by=3)
    with three.brokers[3].client() as client:
        assert produced(client, "orders", acks=-1) == 0
        disk = three.disks[2]
        assert isinstance(disk, FailingDisk)
        wait_until(lambda: three.brokers[2].partition("orders").log_end_offset == 1)
        three.brokers[2].partition("orders").log.close_idle()
        disk.fail(three._folder / "2", number)
        assert produced(client, "orders", acks=1) == 0
        three.await_partition("orders", lambda each: 2 not in each.isr, "the follower is not in sync")
        disk.broken.clear()
        three.await_partition("orders", lambda each: 2 in each.isr, "the follower is in sync again")
    assert three.brokers[2].broker.failures.ended is None


@BOTH
def test_a_partition_whose_folder_could_not_be_made_is_hosted_later(three: ThreeBrokers, number: int) -> None:
    # It was missing until a restart, and a broker that led it answered NOT_COORDINATOR for its groups.
    disk = three.disks[2]
    assert isinstance(disk, FailingDisk)
    for each in ("data", "orders-0"):
        disk.fail(three._folder / "2" / each, number)
    with three.brokers[1].client() as client:
        assert client.call(19, 7, topic("orders", [2])).topics[0].error_code == 0
    with three.brokers[2].client() as client:
        wait_until(lambda: "orders" in three.brokers[2].node.metadata.image.topics)
        assert produced(client, "orders") != 0
        disk.broken.clear()
        wait_until(lambda: produced(client, "orders") == 0, "the partition is hosted")


@pytest.mark.slow
@BOTH
@pytest.mark.parametrize("leads", [True, False], ids=["leader", "follower"])
def test_a_controller_that_is_short_stays_and_has_the_metadata_later(tmp_path: Path, number: int, leads: bool) -> None:
    cluster = ThreeControllers(tmp_path)
    disks = {node: FailingDisk() for node in cluster.ports}
    cluster.disks.update(disks)
    with cluster:
        leader = cluster.leader()
        short = leader if leads else next(node for node in cluster.nodes if node != leader)
        cluster.on_controller(
            short, lambda: cluster.controller(short)._node.logs.get("__cluster_metadata", 0).close_idle()
        )  # type: ignore[union-attr]
        disks[short].fail(tmp_path / str(short), number)
        others = [node for node in cluster.nodes if node != short]
        wait_until(
            lambda: any(cluster.controller(node).active for node in others), "another controller leads while it lasts"
        )
        wait_until(lambda: created(cluster.nodes[others[0]], "meanwhile"), "the others take changes")
        disks[short].broken.clear()
        wait_until(lambda: "meanwhile" in cluster.image(short).topics, "the node follows again")
        assert cluster.nodes[short].broker.failures.ended is None
        assert not cluster.controller(short).broken
        wait_until(lambda: created(cluster.nodes[short], "after"))


@BOTH
def test_a_lone_controller_refuses_a_change_and_takes_the_next_one(tmp_path: Path, number: int) -> None:
    disk = FailingDisk()
    with LiveBroker(tmp_path, disk=disk) as live:
        metadata = live.node.logs.get("__cluster_metadata", 0)
        assert metadata is not None
        metadata.close_idle()
        disk.fail(metadata.directory, number)
        with live.client() as client:
            asked = {"topics": [{"name": "new", "num_partitions": 1, "replication_factor": 1}], "timeout_ms": 30_000}
            assert client.call(19, 7, asked).topics[0].error_code == STORAGE
            assert "new" not in live.node.metadata.image.topics
            disk.broken.clear()
            live.create_topic("new")
            assert produced(client, "new") == 0
    with LiveBroker(tmp_path) as live, live.client() as client:
        assert fetched(client, "new") == (0, 1)
