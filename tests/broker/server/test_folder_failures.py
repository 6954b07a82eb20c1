"""A data folder that fails: its partitions are offline, and the broker serves the others (KIP-112)."""

from __future__ import annotations

import errno
import logging
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.launch.standalone import run
from streamactors.broker.launch.startup import assemble
from streamactors.broker.server.server import Broker
from tests.broker.failing_folder import FailingDisk
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.server.test_several_folders import partitions_in
from tests.broker.wire import WireClient, wait_until

pytestmark = pytest.mark.expects_log("has failed: Input/output error; its partitions are offline")


STORAGE = ErrorCode.KAFKA_STORAGE_ERROR


class TwoFolders:
    """A broker with two folders on a disk that can fail; topic `in-N` is in folder N."""

    def __init__(self, root: Path) -> None:
        self.disk = FailingDisk()
        self.folders = (root / "a", root / "b")

    def start(self, **settings: Any) -> LiveBroker:
        named = {"log.dirs": ",".join(map(str, self.folders)), **settings}
        return LiveBroker(self.folders[0], named, disk=self.disk)

    def create(self, live: LiveBroker, **config: Any) -> None:
        with live.client() as client:
            for number, folder in enumerate(self.folders):
                name = f"in-{number}"
                topics = [{"name": name, "partitions": [0, 1]}]
                client.call(34, 2, {"dirs": [{"path": str(folder), "topics": topics}]})
                live.create_topic(name, partitions=2, **config)
                for partition in range(2):
                    assert produced(client, name, partition) == 0
        assert [len(partitions_in(each)) for each in self.folders] == [2, 2]


@pytest.fixture
def two(tmp_path: Path) -> TwoFolders:
    return TwoFolders(tmp_path)


def produced(client: WireClient, topic: str, partition: int = 0, acks: int = -1, value: bytes = b"a") -> int:
    answer = client.call(0, 9, produce_body(batch(value), topic, partition, acks))
    code: int = answer.responses[0].partition_responses[0].error_code
    return code


def fetched(client: WireClient, topic: str, partition: int = 0) -> tuple[int, int]:
    answer = client.call(1, 12, fetch_body(0, topic, partition)).responses[0].partitions[0]
    return answer.error_code, answer.high_watermark


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno >= logging.ERROR]


def leader_of(live: LiveBroker, topic: str) -> int:
    return live.node.metadata.image.topics[topic].partitions[0].leader


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS])
def test_only_the_partitions_of_the_failed_folder_are_offline(
    two: TwoFolders, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    with two.start() as live, live.client() as client:
        two.create(live)
        two.disk.fail(two.folders[1], number)
        assert produced(client, "in-1") == STORAGE
        wait_until(lambda: live.partition("in-1", 1).lost, "the other partition of the folder is offline, too")
        assert produced(client, "in-1", 1) == STORAGE
        assert fetched(client, "in-1", 1)[0] == STORAGE
        assert produced(client, "in-0") == 0
        assert fetched(client, "in-0") == (0, 2)
        wait_until(lambda: leader_of(live, "in-1") == -1, "the partition has no leader in the metadata")
        assert leader_of(live, "in-0") == live.node.node_id
        described = {each.log_dir: each for each in client.call(35, 4, {"topics": None}).results}
        assert described[str(two.folders[1])].error_code == STORAGE
        assert described[str(two.folders[0])].error_code == 0
        live.create_topic("new", partitions=3)
        assert len([name for name in partitions_in(two.folders[0]) if name.startswith("new")]) == 3
        described = client.call(3, 9, {"topics": [{"name": "in-1"}], "allow_auto_topic_creation": False})
        assert described.topics[0].partitions[0].offline_replicas == (live.node.node_id,)
    assert len(errors(caplog)) == 1, errors(caplog)
    assert f"the data folder {two.folders[1]} has failed" in errors(caplog)[0]


def test_requests_that_wait_are_answered(two: TwoFolders) -> None:
    with two.start() as live, live.client() as consumer, live.client() as client:
        two.create(live)
        consumer.send(1, 12, fetch_body(1, "in-1", 1, min_bytes=1 << 19, max_wait_ms=2**31 - 1))
        wait_until(lambda: live.on_data_plane(lambda: live.node.fetch_purgatory.delayed) == 1)
        two.disk.fail(two.folders[1])
        assert produced(client, "in-1") == STORAGE
        assert consumer.receive()[1].responses[0].partitions[0].error_code == STORAGE


def test_a_folder_that_cannot_be_synced_has_failed(two: TwoFolders) -> None:
    with two.start() as live, live.client() as client:
        two.create(live, flush_messages=1)
        two.disk.fail(two.folders[1])
        assert produced(client, "in-1") == STORAGE
        wait_until(lambda: live.partition("in-1", 1).lost)


@pytest.mark.expects_log("cannot read at offset")
def test_a_folder_that_cannot_be_read_has_failed(two: TwoFolders) -> None:
    with two.start() as live:
        two.create(live)
    with two.start() as live, live.client() as client:
        two.disk.fail(two.folders[1])
        assert fetched(client, "in-1")[0] == STORAGE
        wait_until(lambda: live.partition("in-1", 1).lost)


@pytest.mark.expects_log("cannot close the log", "its partitions may refuse records", "was not closed cleanly")
def test_a_full_folder_has_not_failed(two: TwoFolders) -> None:
    with two.start() as live, live.client() as client:
        two.create(live)
        two.disk.fail(two.folders[1], errno.ENOSPC)
        assert produced(client, "in-1") == STORAGE
        assert live.node.logs.folders.failed_ids == ()
        assert fetched(client, "in-1", 1) == (0, 1)


@pytest.mark.expects_log("its partitions may refuse records", "was not closed cleanly")
def test_a_new_partition_is_made_in_a_folder_with_room(two: TwoFolders) -> None:
    # The folder with the fewest partitions was chosen although its disk was full, and the topic was refused.
    with two.start() as live, live.client() as client:
        two.disk.fail(two.folders[1], errno.ENOSPC)
        live.create_topic("new", partitions=3)
        assert (len(partitions_in(two.folders[0])), len(partitions_in(two.folders[1]))) == (3, 0)
        assert [produced(client, "new", each) for each in range(3)] == [0, 0, 0]
        assert live.node.logs.folders.failed_ids == ()


def test_a_new_partition_is_made_in_a_folder_that_works(two: TwoFolders) -> None:
    with two.start() as live:
        two.disk.fail(two.folders[1])
        live.create_topic("new", partitions=3)
        assert len(partitions_in(two.folders[0])) == 3
        assert live.node.logs.folders.failed_ids
    two.disk.broken.clear()
    with two.start() as live, live.client() as client:
        assert [produced(client, "new", each) for each in range(3)] == [0, 0, 0]


def test_the_records_are_back_when_the_folder_is_repaired(two: TwoFolders) -> None:
    with two.start() as live, live.client() as client:
        two.create(live)
        two.disk.fail(two.folders[1])
        assert produced(client, "in-1") == STORAGE
        wait_until(lambda: leader_of(live, "in-1") == -1)
    two.disk.broken.clear()
    with two.start() as live, live.client() as client:
        assert fetched(client, "in-1") == (0, 1)
        assert produced(client, "in-1") == 0
        assert fetched(client, "in-0") == (0, 1)


def test_a_broker_starts_without_a_folder_that_it_cannot_use(two: TwoFolders, caplog: pytest.LogCaptureFixture) -> None:
    with two.start() as live:
        two.create(live)
    two.disk.fail(two.folders[1])
    with two.start() as live, live.client() as client:
        assert errors(caplog) == [
            f"the data folder {two.folders[1]} has failed: Input/output error; the broker starts without the partitions in it"
        ]
        assert produced(client, "in-0") == 0
        assert produced(client, "in-1") == STORAGE
        assert leader_of(live, "in-1") == -1
        assert [each.error_code for each in client.call(35, 4, {"topics": None}).results] == [0, STORAGE]
        live.create_topic("new", partitions=2)
        assert produced(client, "new", 1) == 0
        client.call(20, 6, {"topics": [{"name": "new", "topic_id": None}], "timeout_ms": 10_000})
    two.disk.broken.clear()
    with two.start() as live, live.client() as client:
        assert fetched(client, "in-1") == (0, 1)
        assert fetched(client, "in-0") == (0, 2)
        assert leader_of(live, "in-1") == live.node.node_id


@pytest.mark.expects_log("has failed: File exists; the broker starts without")
def test_a_folder_in_place_of_a_file_counts_as_failed(two: TwoFolders) -> None:
    two.folders[1].write_text("no folder")
    with two.start() as live, live.client() as client:
        live.create_topic("orders", partitions=2)
        assert produced(client, "orders", 1) == 0


def test_a_broker_ends_with_the_folder_of_its_metadata(two: TwoFolders, caplog: pytest.LogCaptureFixture) -> None:
    with two.start() as live, live.client() as client:
        two.create(live)
        two.disk.fail(two.folders[0])
        assert produced(client, "in-0") == STORAGE
        wait_until(lambda: live.broker.failures.ended is not None)
        assert client.closed_by_peer()
    assert str(two.folders[0]) in str(live.broker.failures.ended)
    assert "ends, because its data folder" in str(live.broker.failures.ended)
    assert [text for text in errors(caplog) if "ends, because" in text] == [live.broker.failures.ended]


def test_a_broker_does_not_start_without_its_first_folder(two: TwoFolders) -> None:
    two.disk.fail(two.folders[0])
    with pytest.raises(BrokerStartError, match=str(two.folders[0])):
        two.start().broker.start()


@pytest.mark.expects_log("repair the disk and start the broker")
def test_the_process_of_a_broker_ends_with_one_sentence(two: TwoFolders) -> None:
    assembled = assemble(listen=["127.0.0.1:0"], data=[str(each) for each in two.folders])

    def ready(broker: Broker) -> None:
        broker.node.logs.failed(broker.node.logs.folders.first, OSError(errno.EIO, "Input/output error"))

    with pytest.raises(
        BrokerStartError, match=f"ends, because its data folder {two.folders[0]}, .* Input/output error"
    ):
        run(assembled, ready)


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
def test_a_broker_with_one_folder_serves_what_it_can(tmp_path: Path) -> None:
    disk = FailingDisk()
    with LiveBroker(tmp_path, disk=disk) as live, live.client() as client:
        live.create_topic("orders", partitions=2)
        assert produced(client, "orders") == 0
        disk.fail(tmp_path / "orders-0")
        assert produced(client, "orders") == STORAGE
        assert produced(client, "orders", 1) == 0
