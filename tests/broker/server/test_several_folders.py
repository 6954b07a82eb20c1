"""A broker with several data folders: where partitions go, what the cluster knows of it, and which folders do not go together."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.controller.cluster_command import AssignReplicas
from streamactors.broker.controller.command import Outcome
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.launch.storage_format import format_folder, new_cluster_id
from streamactors.broker.log.folders.meta_properties import decode_properties, encode_properties
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import wait_until

Broker = Callable[..., LiveBroker]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


def broker_of(*folders: Path, **settings: Any) -> LiveBroker:
    named = {"log.dirs": ",".join(map(str, folders)), **settings}
    return LiveBroker(folders[0], named)


def partitions_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir() if each.is_dir() and not each.name.startswith("__"))


def properties_of(folder: Path) -> Any:
    return decode_properties((folder / "meta.properties").read_bytes())


def test_new_partitions_go_to_the_folder_with_the_fewest(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live:
        live.create_topic("orders", partitions=4)
        assert [len(partitions_in(each)) for each in folders] in ([2, 2], [1, 3])  # the metadata log counts, too
    first, second = map(properties_of, folders)
    assert (first.cluster_id, first.node_id) == (second.cluster_id, second.node_id)
    assert first.directory_id != second.directory_id


def test_a_folder_whose_topic_is_deleted_is_emptier(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live, live.client() as client:
        topics = [{"name": "gone", "partitions": [0, 1, 2, 3]}]
        client.call(34, 2, {"dirs": [{"path": str(folders[1]), "topics": topics}]})
        live.create_topic("gone", partitions=4)
        assert len(partitions_in(folders[1])) == 4
        client.call(20, 6, {"topics": [{"name": "gone", "topic_id": None}], "timeout_ms": 10_000})
        wait_until(lambda: not any(live.node.logs.get("gone", index) for index in range(4)), "the topic is deleted")
        live.create_topic("new", partitions=5)
        new = [[name for name in partitions_in(each) if name.startswith("new")] for each in folders]
        assert [len(each) for each in new] == [2, 3]  # the metadata log counts, too


def test_a_refusal_of_folders_is_told_once_and_they_are_sent_again(
    folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with broker_of(*folders) as live:
        submit, refusals = live.node.controller.submit, list[object]()

        def refuse_thrice(command: Any, reply: Callable[[Any], object]) -> None:
            if isinstance(command, AssignReplicas) and len(refusals) < 3:
                refusals.append(command)
                reply(command.refused(Outcome(ErrorCode.NOT_CONTROLLER)))
            else:
                submit(command, reply)

        monkeypatch.setattr(live.node.controller, "submit", refuse_thrice)
        live.create_topic("orders", partitions=2)
        ids = {each.directory_id for each in live.node.logs.folders.all}

        def known() -> bool:
            topic = live.node.metadata.image.topics["orders"]
            return all(each.folder_of(live.node.node_id) in ids for each in topic.partitions)

        wait_until(known, "the controller knows the folders")
        assert len(refusals) == 3
        told = [each.getMessage() for each in caplog.records if "does not take the data folders" in each.getMessage()]
        assert told == [
            "the controller does not take the data folders of 2 replicas: NOT_CONTROLLER; they are sent again every 200 ms"
        ]


def test_records_are_where_they_were_after_a_restart(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live, live.client() as client:
        live.create_topic("orders", partitions=4)
        for partition in range(4):
            client.call(0, 9, produce_body(batch(b"a", b"b"), partition=partition))
    before = [partitions_in(each) for each in folders]
    with broker_of(*folders) as live, live.client() as client:
        assert [partitions_in(each) for each in folders] == before
        assert live.node.logs.was_clean
        for partition in range(4):
            fetched = client.call(1, 12, fetch_body(0, partition=partition)).responses[0].partitions[0]
            assert (fetched.error_code, fetched.high_watermark) == (0, 2)


def test_the_metadata_say_which_folder_has_a_replica(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live:
        live.create_topic("orders", partitions=3)
        ids = {each.path: each.directory_id for each in live.node.logs.folders.all}

        def known() -> list[Any]:
            topic = live.node.metadata.image.topics["orders"]
            return [each.folder_of(live.node.node_id) for each in topic.partitions]

        wanted = [ids[live.partition("orders", index).log.directory.parent] for index in range(3)]
        wait_until(lambda: known() == wanted)
        assert set(live.node.metadata.image.brokers[live.node.node_id].log_dirs) == set(ids.values())


def test_every_folder_is_described(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live, live.client() as client:
        live.create_topic("orders", partitions=4)
        client.call(0, 9, produce_body(batch(b"a"), partition=1))
        described = client.call(35, 4, {"topics": None}).results
        assert [each.log_dir for each in described] == [str(each) for each in folders]
        found = {
            (topic.name, each.partition_index): each.partition_size
            for folder in described
            for topic in folder.topics
            for each in topic.partitions
        }
        assert sorted(found) == [("orders", index) for index in range(4)]
        assert found["orders", 1] > 0
        assert all(each.total_bytes > each.usable_bytes > 0 for each in described)


def test_a_replica_is_created_where_it_was_asked_for(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live, live.client() as client:
        topics = [{"name": "orders", "partitions": [0, 1, 2]}]
        asked = {"dirs": [{"path": str(folders[1]), "topics": topics}, {"path": "/nowhere", "topics": topics}]}
        answer = client.call(34, 2, asked).results[0].partitions
        assert [each.error_code for each in answer] == 3 * [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] + 3 * [
            ErrorCode.LOG_DIR_NOT_FOUND
        ]
        live.create_topic("orders", partitions=3)
        assert partitions_in(folders[1]) == ["orders-0", "orders-1", "orders-2"]


def test_a_further_folder_is_taken_into_use(folders: tuple[Path, Path]) -> None:
    with broker_of(folders[0]) as live:
        live.create_topic("old", partitions=2)
    with broker_of(*folders) as live:
        live.create_topic("new", partitions=2)
        assert partitions_in(folders[1]) == ["new-0", "new-1"]
        assert partitions_in(folders[0]) == ["old-0", "old-1"]


def test_a_copy_of_a_folder_is_refused(folders: tuple[Path, Path]) -> None:
    with broker_of(folders[0]):
        pass
    folders[1].mkdir()
    shutil.copy(folders[0] / "meta.properties", folders[1])
    with pytest.raises(BrokerStartError, match=r"have the same directory\.id: one is a copy of the other"):
        broker_of(*folders).broker.start()


@pytest.mark.parametrize(("cluster", "node_id", "why"), [(None, 1, "belongs to cluster"), ("same", 7, "is of node 7")])
def test_the_folder_of_another_node_is_refused(
    folders: tuple[Path, Path], cluster: str | None, node_id: int, why: str
) -> None:
    with broker_of(folders[0]) as live:
        cluster_id = live.node.cluster_id if cluster else new_cluster_id()
    format_folder(folders[1], node_id, cluster_id)
    with pytest.raises(BrokerStartError, match=why):
        broker_of(*folders).broker.start()
    with broker_of(folders[0]):  # the locks are gone
        pass


def test_a_second_metadata_log_is_refused(folders: tuple[Path, Path]) -> None:
    with broker_of(folders[0]):
        pass
    with pytest.raises(BrokerStartError, match="has a metadata log"):
        broker_of(*reversed(folders)).broker.start()


def test_the_folder_of_the_metadata_log_can_be_named(folders: tuple[Path, Path]) -> None:
    settings = {"log.dirs": ",".join(map(str, folders)), "metadata.log.dir": str(folders[1])}
    with LiveBroker(folders[1], settings):
        assert (folders[1] / "__cluster_metadata-0").exists()
        assert not (folders[0] / "__cluster_metadata-0").exists()


def test_the_metadata_log_can_be_apart(folders: tuple[Path, Path], tmp_path: Path) -> None:
    apart = tmp_path / "metadata"
    settings = {"log.dirs": ",".join(map(str, folders)), "metadata.log.dir": str(apart)}
    for _ in range(2):
        with LiveBroker(apart, settings) as live, live.client() as client:
            if "orders" not in live.node.metadata.image.topics:
                live.create_topic("orders", partitions=4)
            assert [len(partitions_in(each)) for each in (apart, *folders)] == [0, 2, 2]
            assert (apart / "__cluster_metadata-0").exists()
            assert [each.log_dir for each in client.call(35, 4, {"topics": None}).results] == [*map(str, folders)]
            topics = [{"name": "orders", "partitions": [0]}]
            answer = client.call(34, 2, {"dirs": [{"path": str(apart), "topics": topics}]})
            assert answer.results[0].partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND
            ids = {each.directory_id for each in live.node.logs.folders.all[1:]}
            assert set(live.node.metadata.image.brokers[live.node.node_id].log_dirs) == ids


@pytest.mark.expects_log("has failed: File exists; the broker starts without")
def test_a_broker_does_not_start_without_a_folder_for_partitions(folders: tuple[Path, Path]) -> None:
    folders[1].write_text("no folder")
    settings = {"log.dirs": str(folders[1]), "metadata.log.dir": str(folders[0])}
    with pytest.raises(BrokerStartError, match="no data folder for partitions can be used"):
        LiveBroker(folders[0], settings).broker.start()


def test_partitions_in_a_folder_for_metadata_alone_are_refused(folders: tuple[Path, Path]) -> None:
    with broker_of(folders[0]) as live:
        live.create_topic("orders")
    settings = {"log.dirs": str(folders[1]), "metadata.log.dir": str(folders[0])}
    with pytest.raises(
        BrokerStartError, match=r"orders-0 is in the folder of metadata\.log\.dir, which is not one of log\.dirs"
    ):
        LiveBroker(folders[0], settings).broker.start()


def test_a_partition_in_two_folders_is_refused(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live, live.client() as client:
        live.create_topic("orders", partitions=1)
        client.call(0, 9, produce_body(batch(b"a")))
    has, lacks = folders if partitions_in(folders[0]) else folders[::-1]
    shutil.copytree(has / "orders-0", lacks / "orders-0")
    with pytest.raises(BrokerStartError, match=r"orders-0 is in .* and in "):
        broker_of(*folders).broker.start()


def test_an_empty_copy_of_a_partition_is_removed(folders: tuple[Path, Path]) -> None:
    with broker_of(*folders) as live:
        live.create_topic("orders", partitions=1)
    has, lacks = folders if partitions_in(folders[0]) else folders[::-1]
    shutil.copytree(has / "orders-0", lacks / "orders-0")
    with broker_of(*folders) as live, live.client() as client:
        client.call(0, 9, produce_body(batch(b"a")))
        assert sum(len(partitions_in(each)) for each in folders) == 1
    kept, other = folders if partitions_in(folders[0]) else folders[::-1]
    shutil.copytree(kept / "orders-0", other / "orders-0")
    for path in (other / "orders-0").glob("0*"):
        path.write_bytes(b"")
    with broker_of(*folders) as live:
        assert live.partition("orders").log_end_offset == 1
        assert partitions_in(other) == []


def test_a_folder_without_an_id_gets_one(folders: tuple[Path, Path]) -> None:
    with broker_of(folders[0]):
        pass
    path = folders[0] / "meta.properties"
    path.write_bytes(encode_properties(decode_properties(path.read_bytes())._replace(directory_id=None)))
    with broker_of(*folders) as live:
        assert len(set(live.node.logs.folders.ids)) == 2
    assert properties_of(folders[0]).directory_id is not None
