"""Three brokers with two data folders each, one of which fails: the leaderships in it move to other brokers (KIP-858)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from streamactors.broker.errors import ErrorCode
from tests.broker.controller_apis.test_folders_of_members import TwoFoldersEach, create
from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.failing_folder import FailingDisk
from tests.broker.live_broker import batch, produce_body
from tests.broker.wire import WireClient, wait_until

pytestmark = pytest.mark.expects_log("has failed: Input/output error; its partitions are offline")


@pytest.fixture
def disks() -> dict[int, FailingDisk]:
    return {broker: FailingDisk() for broker in (1, 2, 3)}


@pytest.fixture
def cluster(tmp_path: Path, disks: dict[int, FailingDisk]) -> Iterator[TwoFoldersEach]:
    # The next regular heartbeat is far away: the controller must hear of a failure before it. A departure in order would wait for the heartbeats
    # of the others; a broker that closes its connections is fenced at once.
    cluster = TwoFoldersEach(
        tmp_path,
        broker_heartbeat_interval_ms=15_000,
        controlled_shutdown_enable=False,
        controller_fence_closed_connections=True,
    )
    cluster.disks.update(disks)
    with cluster:
        yield cluster


def produced(client: WireClient, partition: int = 0) -> int:
    answer = client.call(0, 9, produce_body(batch(b"a"), partition=partition))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def second_folder(cluster: TwoFoldersEach, broker: int) -> Path:
    return cluster.brokers[broker].node.logs.folders.all[1].path


def create_in_second_folder(cluster: TwoFoldersEach, broker: int, other: int) -> None:
    """Create two partitions that the broker leads, in its second folder."""
    with cluster.brokers[broker].client() as client:
        topics = [{"name": "orders", "partitions": [0, 1]}]
        client.call(34, 2, {"dirs": [{"path": str(second_folder(cluster, broker)), "topics": topics}]})
    create(cluster, "orders", [[broker, other], [broker, other]])
    wait_until(lambda: cluster.known("orders") == cluster.real("orders"), "the folders of all replicas")
    cluster.await_partition("orders", lambda each: set(each.isr) == {broker, other}, "both are in sync", broker)
    assert cluster.brokers[broker].partition("orders").log.directory.parent == second_folder(cluster, broker)


@pytest.mark.parametrize(("broker", "other"), [(2, 3), (1, 2)])
def test_another_broker_leads_what_was_in_a_failed_folder(
    cluster: TwoFoldersEach, disks: dict[int, FailingDisk], broker: int, other: int
) -> None:
    create_in_second_folder(cluster, broker, other)
    failed = cluster.brokers[broker].node.logs.folders.all[1].directory_id
    with cluster.brokers[broker].client() as client:
        assert produced(client) == 0
        disks[broker].fail(second_folder(cluster, broker))
        assert produced(client) in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.REQUEST_TIMED_OUT)
    for index in (0, 1):
        wait_until(
            lambda index=index: cluster.partition("orders", index, seen_by=other).leader == other,
            "the other broker leads",
        )
        assert cluster.partition("orders", index).isr == (other,)
    assert failed not in cluster.image.brokers[broker].log_dirs
    assert not cluster.image.brokers[broker].fenced
    with cluster.brokers[other].client() as client:
        assert produced(client) == 0
        assert produced(client, 1) == 0


@pytest.mark.expects_log("has failed: Input/output error; the broker starts without")
def test_a_broker_with_a_repaired_folder_copies_what_it_missed(
    cluster: TwoFoldersEach, disks: dict[int, FailingDisk]
) -> None:
    create_in_second_folder(cluster, 2, 3)
    with cluster.brokers[2].client() as client:
        disks[2].fail(second_folder(cluster, 2))
        produced(client)
    wait_until(lambda: cluster.partition("orders", seen_by=3).leader == 3, "broker 3 leads")
    with cluster.brokers[3].client() as client:
        assert produced(client) == 0
    cluster.stop(2)
    cluster.join(2)  # the disk still fails
    assert len(cluster.image.brokers[2].log_dirs) == 1
    assert cluster.partition("orders").isr == (3,)
    cluster.stop(2)
    disks[2].broken.clear()
    cluster.join(2)
    cluster.await_partition("orders", lambda each: set(each.isr) == {2, 3}, "broker 2 is in sync again")
    ends = [cluster.brokers[each].partition("orders").log_end_offset for each in (2, 3)]
    assert ends[0] == ends[1] > 0


def test_the_leader_is_the_one_whose_folder_works_when_the_other_comes_back_first(
    cluster: TwoFoldersEach, disks: dict[int, FailingDisk]
) -> None:
    create_in_second_folder(cluster, 2, 3)
    cluster.stop(3)
    wait_until(lambda: cluster.partition("orders").isr == (2,), "broker 2 is alone")
    with cluster.brokers[2].client() as client:
        disks[2].fail(second_folder(cluster, 2))
        produced(client)
    wait_until(lambda: cluster.partition("orders").leader == -1, "the partition has no leader")
    cluster.join(3)
    assert cluster.partition("orders").leader == -1  # broker 3 may lack records
    cluster.stop(2)
    disks[2].broken.clear()
    cluster.join(2)
    wait_until(lambda: cluster.partition("orders").leader == 2, "broker 2 leads")


@pytest.mark.expects_log("repair the disk and start the broker")
def test_a_broker_of_a_cluster_ends_with_its_only_folder(tmp_path: Path, disks: dict[int, FailingDisk]) -> None:
    cluster = ThreeBrokers(tmp_path)
    cluster.disks.update(disks)
    with cluster:
        with cluster.brokers[1].client() as client:
            assignments = [{"partition_index": 0, "broker_ids": [2, 3]}]
            topic = {
                "name": "orders", "num_partitions": -1, "replication_factor": -1, "assignments": assignments, "configs": []
            }  # fmt: skip
            assert client.call(19, 7, {"topics": [topic], "timeout_ms": 30_000}).topics[0].error_code == 0
        cluster.await_partition("orders", lambda each: each.leader == 2, "broker 2 leads", 2)
        with cluster.brokers[2].client() as client:
            disks[2].fail(tmp_path / "2" / "orders-0")
            client.send(0, 9, produce_body(batch(b"a")))
            wait_until(lambda: cluster.brokers[2].broker.failures.ended is not None, "broker 2 ends")
        wait_until(lambda: cluster.partition("orders").leader == 3, "broker 3 leads")


@pytest.mark.expects_log("log.dir.failure.timeout.ms) that its data folder")
def test_a_broker_that_cannot_tell_the_controller_in_time_ends(tmp_path: Path, disks: dict[int, FailingDisk]) -> None:
    cluster = TwoFoldersEach(tmp_path, log_dir_failure_timeout_ms=200, controlled_shutdown_enable=False)
    cluster.disks.update(disks)
    with cluster:
        create_in_second_folder(cluster, 2, 3)
        cluster.stop(1)  # the controller
        failures = cluster.brokers[2].broker.failures
        with cluster.brokers[2].client() as client:
            disks[2].fail(second_folder(cluster, 2))
            assert produced(client) in (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_ENOUGH_REPLICAS)
            wait_until(lambda: failures.ended is not None, "the broker ends")
            assert client.closed_by_peer()
        assert "no controller has heard within 200 ms (log.dir.failure.timeout.ms)" in str(failures.ended)
        assert str(second_folder(cluster, 2)) in str(failures.ended)


def test_a_broker_that_has_told_the_controller_goes_on(tmp_path: Path, disks: dict[int, FailingDisk]) -> None:
    # The controller answers the heartbeat that names the folder; from then on nothing waits for the time to be up.
    cluster = TwoFoldersEach(tmp_path, log_dir_failure_timeout_ms=86_400_000)
    cluster.disks.update(disks)
    with cluster:
        create_in_second_folder(cluster, 2, 3)
        failures = cluster.brokers[2].broker.failures
        with cluster.brokers[2].client() as client:
            disks[2].fail(second_folder(cluster, 2))
            produced(client)
        wait_until(lambda: cluster.partition("orders").leader == 3, "the controller knows it")
        wait_until(lambda: not failures.unreported, "the broker knows that the controller knows it")
