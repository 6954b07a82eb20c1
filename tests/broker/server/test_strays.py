"""Records of partitions that the metadata does not know: they are kept, whatever the reason.

A controller's folder was restored from an older copy, as an error of ours advises, and the brokers deleted the records of every topic that was made since."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.broker.controller_apis.three_brokers import ThreeBrokers
from tests.broker.live_broker import LiveBroker
from tests.broker.server.test_folder_failures import fetched, produced
from tests.broker.server.test_metadata_disk import topic
from tests.broker.wire import WireClient, wait_until


def strays(folder: Path) -> list[str]:
    """Return the stray folders, without the part of the name that is random."""
    found = [each for each in folder.iterdir() if each.name.endswith("-stray")]
    assert all(list(each.glob("*.log")) for each in found)
    return sorted(f"{each.name.split('.')[0]}-stray" for each in found)


def create(cluster: ThreeBrokers, name: str, *replicas: int) -> None:
    with cluster.brokers[1].client() as client:
        assert client.call(19, 7, topic(name, list(replicas))).topics[0].error_code == 0
    for broker in replicas:
        wait_until(lambda broker=broker: cluster.brokers[broker].node.partitions.get(name, 0) is not None)  # type: ignore[misc]


def delete(cluster: ThreeBrokers, name: str) -> None:
    with cluster.brokers[1].client() as client:
        asked = {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 30_000}
        assert client.call(20, 6, asked).responses[0].error_code == 0


def write(cluster: ThreeBrokers, name: str, broker: int) -> None:
    with cluster.brokers[broker].client() as client:
        wait_until(lambda: produced(client, name) == 0, f"{name} takes a record")


def described(client: WireClient) -> dict[str, int]:
    """The size of each topic in DescribeLogDirs."""
    (folder,) = client.call(35, 4, {"topics": None}).results
    return {each.name: each.partitions[0].partition_size for each in folder.topics}


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> list[str]:
    return [
        each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING and text in each.getMessage()
    ]


@pytest.fixture
def restored(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    """The folders of three brokers, of which the controller's is older than the others."""
    with ThreeBrokers(tmp_path) as cluster:
        create(cluster, "twin", 2)
        create(cluster, "moved", 3)
    shutil.copytree(tmp_path / "1", tmp_path / "copy")
    with ThreeBrokers(tmp_path) as cluster:
        create(cluster, "precious", 2)
        write(cluster, "precious", 2)
        create(cluster, "empty", 2)
        delete(cluster, "twin")
        wait_until(lambda: cluster.brokers[2].node.partitions.get("twin", 0) is None)
        create(cluster, "twin", 2)
        write(cluster, "twin", 2)
        with cluster.brokers[1].client() as client:
            to_2 = {"name": "moved", "partitions": [{"partition_index": 0, "replicas": [2]}]}
            assert client.call(45, 0, {"topics": [to_2], "timeout_ms": 30_000}).error_code == 0
        cluster.await_partition("moved", lambda each: each.replicas == (2,), "the partition has moved", seen_by=2)
        write(cluster, "moved", 2)
    (tmp_path / "1").rename(tmp_path / "newer")
    (tmp_path / "copy").rename(tmp_path / "1")
    caplog.clear()
    return tmp_path


@pytest.mark.expects_log("this broker cannot join its cluster")
def test_their_folders_are_kept_and_named(restored: Path, caplog: pytest.LogCaptureFixture) -> None:
    kept = ["moved-0-stray", "precious-0-stray", "twin-0-stray"]
    with ThreeBrokers(restored) as cluster:
        assert strays(restored / "2") == kept
        for name in ("moved-0", "precious-0", "twin-0"):
            (told,) = warnings(caplog, f"{name} ")
            assert f"its 1 records are kept in {restored / '2' / name}." in told
            assert told.endswith("-stray, which the broker never deletes")
        with cluster.brokers[2].client() as client:
            sizes = described(client)
        for each in (restored / "2").glob("*-stray"):
            assert sizes[each.name] > 0
        create(cluster, "precious", 2)
        write(cluster, "precious", 2)
        delete(cluster, "precious")
    for _ in range(2):
        caplog.clear()
        with ThreeBrokers(restored):
            assert strays(restored / "2") == kept
        assert warnings(caplog, "stray") == []


def test_a_broker_that_starts_after_the_metadata_went_back_says_so(
    restored: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with ThreeBrokers(restored):
        assert len(warnings(caplog, "the controllers lost metadata: their log ends at ")) == 2, "brokers 2 and 3"


@pytest.mark.expects_log("the controllers lost metadata", "which the broker never deletes")
def test_a_folder_with_its_old_name_is_the_partition_again(restored: Path) -> None:
    with ThreeBrokers(restored):
        pass
    shutil.rmtree(restored / "1")
    (restored / "newer").rename(restored / "1")
    for broker in ("2", "3"):  # it may have other records of the same epoch
        shutil.rmtree(restored / broker / "__cluster_metadata-0")
    (stray,) = (restored / "2").glob("precious-0.*-stray")
    stray.rename(restored / "2" / "precious-0")
    with ThreeBrokers(restored) as cluster, cluster.brokers[2].client() as client:
        wait_until(lambda: fetched(client, "precious") == (0, 1), "its record is read")


def test_what_was_deleted_while_a_broker_was_away_is_deleted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ThreeBrokers(tmp_path) as cluster:
        create(cluster, "gone", 2)
        write(cluster, "gone", 2)
        cluster.stop(2)
        delete(cluster, "gone")
        cluster.join(2)
        assert not list((tmp_path / "2").glob("gone-0*[!e]"))
        assert strays(tmp_path / "2") == []
    assert warnings(caplog, "lost metadata") == []


def test_a_lone_broker_names_the_folder_that_keeps_it_from_starting(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as live:
        pass
    shutil.copytree(tmp_path / "__cluster_metadata-0", tmp_path.parent / "copy")
    with LiveBroker(tmp_path) as live, live.client() as client:
        live.create_topic("orders")
        assert produced(client, "orders") == 0
    shutil.rmtree(tmp_path / "__cluster_metadata-0")
    shutil.move(tmp_path.parent / "copy", tmp_path / "__cluster_metadata-0")
    with pytest.raises(
        Exception, match=r"or start without these records: rename .*/orders-0 to orders-0\.[0-9a-f]{32}-stray"
    ) as refused:
        LiveBroker(tmp_path).__enter__()
    renamed = str(refused.value).rpartition(" ")[2]
    (tmp_path / "orders-0").rename(tmp_path / renamed)
    with LiveBroker(tmp_path) as live, live.client() as client:
        live.create_topic("orders")
        assert fetched(client, "orders") == (0, 0)
        sizes: dict[str, Any] = described(client)
        assert sizes[renamed] > sizes["orders"] == 0
    assert (tmp_path / renamed).exists()
