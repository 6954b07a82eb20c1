"""The controller in a whole broker: many at once, a failing disk, crashes, and what a crash leaves in the folder."""

from __future__ import annotations

import logging
import os
import random
import signal
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker import Cluster
from streamactors.broker.errors import BrokerStartError, ErrorCode
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from tests.broker.live_broker import LiveBroker, batch, produce_body
from tests.broker.log.forgetful_disk import ForgetfulDisk
from tests.broker.wire import WireClient

NEW_TOPIC = {"num_partitions": 2, "replication_factor": 1, "assignments": (), "configs": ()}


def create(client: WireClient, *names: str) -> list[tuple[int, str | None]]:
    answer = client.call(19, 7, {"topics": [{"name": name, **NEW_TOPIC} for name in names], "timeout_ms": 30_000})
    return [(topic.error_code, topic.error_message) for topic in answer.topics]


def topics(client: WireClient) -> dict[str, uuid.UUID]:
    return {topic.name: topic.topic_id for topic in client.call(3, 12, {"topics": None}).topics}


def test_a_topic_is_said_to_be_created_once_and_not_again_at_every_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "streamactors.broker")
    with LiveBroker(tmp_path) as broker:
        broker.create_topic("a")
    assert caplog.text.count("topic a created: 1 partitions") == 1
    with LiveBroker(tmp_path) as broker, broker.client() as client:
        assert set(topics(client)) == {"a"}
        client.call(20, 5, {"topic_names": ["a"], "timeout_ms": 30_000})
    assert caplog.text.count("topic a created") == 1
    assert caplog.text.count("topic a deleted") == 1


def test_many_clients_create_the_same_topics_and_each_comes_true_once(tmp_path: Path) -> None:
    outcomes: list[int] = []
    with LiveBroker(tmp_path) as broker:

        def run(seed: int) -> None:
            names = [f"t{number}" for number in range(10)]
            random.Random(seed).shuffle(names)
            with WireClient("127.0.0.1", broker.port) as client:
                for name in names:
                    outcomes.extend(code for code, _ in create(client, name))

        threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        found = topics(broker.client())
    assert sorted(outcomes) == [ErrorCode.NONE] * 10 + [ErrorCode.TOPIC_ALREADY_EXISTS] * 50
    assert len(set(found.values())) == len(found) == 10


def test_requests_sent_at_once_are_carried_out_in_their_order(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        client = broker.client()
        body = {"topics": [{"name": "t", **NEW_TOPIC}], "timeout_ms": 1_000}
        gone = {"topics": [{"name": "t", "topic_id": None}], "timeout_ms": 1_000}
        for _ in range(10):
            client.send(19, 7, body)
            client.send(20, 6, gone)
        answers = [client.receive()[1] for _ in range(20)]
        assert [answer.topics[0].error_code for answer in answers[::2]] == [0] * 10
        assert [answer.responses[0].error_code for answer in answers[1::2]] == [0] * 10
        assert topics(client) == {}


@pytest.mark.expects_log(
    "the metadata log cannot be written", "the partition is offline for writes", "was not closed cleanly"
)
@pytest.mark.parametrize("doing", ["write", "sync"])
def test_a_failing_disk_refuses_changes_and_serves_on_until_a_restart(tmp_path: Path, doing: str) -> None:
    disk = ForgetfulDisk(tmp_path)
    with LiveBroker(tmp_path, disk=disk) as broker:
        client = broker.client()
        assert create(client, "before") == [(0, None)]
        disk.fail_next(doing, "00000000000000000000.log")
        ((code, message),) = create(client, "lost")
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert message is not None
        assert "restart the broker" in message
        assert set(topics(client)) == {"before"}
        assert not (tmp_path / "lost-0").exists()
        assert create(client, "later")[0][0] == ErrorCode.KAFKA_STORAGE_ERROR
        answer = client.call(0, 9, produce_body(batch(b"x"), topic="before"))
        assert answer.responses[0].partition_responses[0].error_code == 0
    with LiveBroker(tmp_path) as broker:
        client = broker.client()
        assert "before" in topics(client)
        assert create(client, "after") == [(0, None)]


def test_a_full_disk_while_folders_are_made_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveBroker(tmp_path) as broker:
        client = broker.client()
        make, made = broker.node.logs.create, []

        def fill(topic: str, partition: int, *more: Any) -> object:
            if partition == 1:
                from streamactors.broker.errors import StorageError

                raise StorageError(f"cannot create {topic}-{partition}: No space left on device")
            made.append(topic)
            return make(topic, partition, *more)

        monkeypatch.setattr(broker.node.logs, "create", fill)
        ((code, message),) = create(client, "big")
        assert (code, made) == (ErrorCode.KAFKA_STORAGE_ERROR, ["big"])
        assert "No space left" in str(message)
        monkeypatch.undo()
        assert not (tmp_path / "big-0").exists()
        assert create(client, "big") == [(0, None)]  # the metadata log was never touched


# --- what a crash can leave ---


def left_over(folder: Path, topic: str, topic_id: uuid.UUID | None, *, records: bool = False) -> None:
    """Put a partition's folder there that the metadata does not know of."""
    logs = LogManager(folder, default_config=LogConfig(), clock_ms=lambda: 0)
    logs.open()
    log = logs.create(topic, 0, topic_id, LogConfig())
    if records:
        log.append_as_leader(memoryview(bytearray(batch(b"precious", timestamp=0))), 0, 0)
    logs.close()


def test_an_empty_folder_of_a_topic_that_never_came_to_be_is_removed(tmp_path: Path) -> None:
    with LiveBroker(tmp_path):
        pass
    left_over(tmp_path, "never", uuid.uuid4())
    with LiveBroker(tmp_path) as broker:
        assert not (tmp_path / "never-0").exists()
        assert create(broker.client(), "never") == [(0, None)]


def test_a_folder_of_a_topic_that_is_deleted_is_removed_with_its_records(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        client = broker.client()
        create(client, "gone")
        deleted = topics(client)["gone"]
        client.call(20, 6, {"topics": [{"name": "gone", "topic_id": None}], "timeout_ms": 1_000})
    left_over(tmp_path, "gone", deleted, records=True)
    with LiveBroker(tmp_path) as broker:
        assert topics(broker.client()) == {}
        assert not (tmp_path / "gone-0").exists()


def test_records_that_the_metadata_does_not_know_are_not_thrown_away(tmp_path: Path) -> None:
    with LiveBroker(tmp_path):
        pass
    left_over(tmp_path, "unknown", uuid.uuid4(), records=True)
    with pytest.raises(BrokerStartError, match="records of unknown-0, which its metadata does not know"):
        LiveBroker(tmp_path).__enter__()
    assert (tmp_path / "unknown-0").exists()


def test_a_folder_that_is_missing_is_made_again(tmp_path: Path) -> None:
    with LiveBroker(tmp_path) as broker:
        create(broker.client(), "t")
    for file in (tmp_path / "t-1").iterdir():
        file.unlink()
    (tmp_path / "t-1").rmdir()
    with LiveBroker(tmp_path) as broker:
        answer = broker.client().call(0, 9, produce_body(batch(b"x"), topic="t", partition=1))
        assert answer.responses[0].partition_responses[0].error_code == 0


def crash_while_creating(folder: Path, rng: random.Random) -> None:
    """Create and delete topics from two clients and kill the broker meanwhile; then everything acknowledged is so."""
    acknowledged: dict[str, bool] = {}
    unknown: set[str] = set()
    cluster = Cluster(data=folder, process=True).start()
    host, port = cluster.bootstrap_servers.split(":")
    enough = threading.Event()
    wanted = rng.randrange(1, 40)

    def run(client_number: int) -> None:
        with WireClient(host, int(port)) as client:
            for number in range(1000):
                name = f"c{client_number}-{number}-{rng.random()}"
                unknown.add(name)
                try:
                    assert create(client, name) == [(0, None)]
                    acknowledged[name] = True
                    if number % 3 == 2:
                        acknowledged.pop(name)  # until it is answered, it may be either
                        client.call(20, 6, {"topics": [{"name": name, "topic_id": None}], "timeout_ms": 1_000})
                        acknowledged[name] = False
                except (ConnectionError, TimeoutError):
                    return
                unknown.discard(name)
                if len(acknowledged) >= wanted:
                    enough.set()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    assert enough.wait(60)
    os.kill(cluster.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    cluster.close()
    with Cluster(data=folder) as again, WireClient(host, int(again.bootstrap_servers.split(":")[1])) as client:
        there = topics(client)
        assert {name for name, exists in acknowledged.items() if exists} <= set(there)
        assert {name for name, exists in acknowledged.items() if not exists} & set(there) == set()
        folders = {
            path.name.rpartition("-")[0] for path in folder.iterdir() if path.is_dir() and path.name[-1].isdigit()
        }
        assert folders - {"__cluster_metadata"} == set(there)


def test_acknowledged_topics_survive_two_kills(tmp_path: Path) -> None:
    for seed in range(2):
        crash_while_creating(tmp_path, random.Random(seed))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_acknowledged_topics_survive_a_kill_at_any_moment(tmp_path: Path) -> None:
    for seed in range(30):
        crash_while_creating(tmp_path / str(seed), random.Random(seed))
