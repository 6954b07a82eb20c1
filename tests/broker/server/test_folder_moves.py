"""A replica moves to another data folder of its broker while it is written and read (KIP-113)."""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.folders.future_log import FutureLog
from streamactors.broker.log.partition.partition_log import PartitionLog
from tests.broker.live_broker import LiveBroker, batch, fetch_body, produce_body
from tests.broker.server.test_folder_failures import TwoFolders, fetched, produced
from tests.broker.server.test_several_folders import partitions_in
from tests.broker.wire import WireClient, wait_until


class Gate:
    """Steps of copies wait while it is closed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        copy = FutureLog.copy

        def waiting(future: FutureLog, most_bytes: int, now_ms: int) -> int:
            assert self.open.wait(60)
            return copy(future, most_bytes, now_ms)

        monkeypatch.setattr(FutureLog, "copy", waiting)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(monkeypatch)
    yield gate
    gate.open.set()


@pytest.fixture
def two(tmp_path: Path) -> TwoFolders:
    return TwoFolders(tmp_path)


def move(client: WireClient, folder: Path, topic: str = "in-0", partition: int = 0) -> int:
    body = {"dirs": [{"path": str(folder), "topics": [{"name": topic, "partitions": [partition]}]}]}
    code: int = client.call(34, 2, body).results[0].partitions[0].error_code
    return code


def described(client: WireClient, topic: str = "in-0") -> dict[tuple[str, bool], Any]:
    """The entries of partition 0 of a topic, by folder and whether it is the copy."""
    answer = client.call(35, 4, {"topics": [{"topic": topic, "partitions": [0]}]})
    return {
        (folder.log_dir, each.is_future_key): each
        for folder in answer.results
        for found in folder.topics
        for each in found.partitions
    }


def folder_of(live: LiveBroker, topic: str = "in-0") -> Path:
    return live.partition(topic).log.directory.parent


def assigned(live: LiveBroker, topic: str = "in-0") -> Any:
    return live.node.metadata.image.topics[topic].partitions[0].folder_of(live.node.node_id)


def test_a_replica_moves_with_its_records(two: TwoFolders) -> None:
    first, second = two.folders
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        wait_until(lambda: folder_of(live) == second, "the replica has moved")
        wait_until(lambda: assigned(live) == live.node.logs.folders.all[1].directory_id, "the controller knows it")
        assert (partitions_in(second), fetched(client, "in-0")) == (["in-0-0", "in-1-0", "in-1-1"], (0, 1))
        assert produced(client, "in-0") == 0
        assert list(described(client)) == [(str(second), False)]
    with two.start() as live, live.client() as client:
        assert partitions_in(first) == ["in-0-1"]
        assert fetched(client, "in-0") == (0, 2)


def test_nothing_is_lost_or_doubled_while_a_replica_moves_to_and_fro(two: TwoFolders) -> None:
    first, second = two.folders
    with two.start() as live, live.client() as mover:
        two.create(live, flush_messages=1, segment_bytes=1 << 20)
        written: list[bytes] = []
        stop = threading.Event()

        def write() -> None:
            with WireClient("127.0.0.1", live.port) as client:
                while not stop.is_set():
                    value = b"%d" % len(written) + 2000 * b"x"
                    answer = client.call(0, 9, produce_body(batch(value), "in-0"))
                    part = answer.responses[0].partition_responses[0]
                    assert (part.error_code, part.base_offset) == (0, len(written) + 1)
                    written.append(value)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for target in (second, first, second):
                assert move(mover, target) == 0
                wait_until(lambda target=target: folder_of(live) == target, "the replica has moved")
                at = len(written)
                wait_until(lambda at=at: len(written) > at + 20 or not writer.is_alive(), "writes go on")
        finally:
            stop.set()
            writer.join(30)
        assert written
        log = live.partition("in-0").log
        values = [record.value for each in log.reader.replay(1, log.end_offset) for record in each.records()]
        assert values == written


def test_a_copy_is_described_until_it_is_complete(two: TwoFolders, gate: Gate) -> None:
    first, second = two.folders
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        found = described(client)
        assert set(found) == {(str(first), False), (str(second), True)}
        assert found[str(second), True].offset_lag == 1
        assert move(client, second) == 0  # asked twice
        gate.open.set()
        wait_until(lambda: folder_of(live) == second, "the replica has moved")


def test_a_move_back_ends_the_move(two: TwoFolders, gate: Gate) -> None:
    first, second = two.folders
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        assert move(client, first) == 0
        gate.open.set()
        wait_until(lambda: len(described(client)) == 1, "the copy is gone")
        assert folder_of(live) == first
        assert len(partitions_in(second)) == 2


def test_an_interrupted_move_goes_on_after_a_restart(two: TwoFolders, gate: Gate) -> None:
    second = two.folders[1]
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        threading.Timer(0.1, gate.open.set).start()  # the stop waits for the step, whose copy is not used any more
        live.node.folder_moves.stop()  # type: ignore[union-attr]
    assert any(name.endswith("-future") for name in partitions_in(second))
    with two.start() as live, live.client() as client:
        wait_until(lambda: folder_of(live) == second, "the replica has moved")
        assert fetched(client, "in-0") == (0, 1)


@pytest.mark.expects_log("does not move", "has failed: Input/output error; its partitions are offline")
def test_a_move_to_a_folder_that_fails_leaves_the_replica_where_it_is(two: TwoFolders, gate: Gate) -> None:
    first, second = two.folders
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        two.disk.fail(second)
        gate.open.set()
        wait_until(lambda: bool(live.node.logs.folders.failed_ids), "the folder has failed")
        assert produced(client, "in-0") == 0
        assert folder_of(live) == first
        assert move(client, second) == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.expects_log("does not move", "has failed: Input/output error; its partitions are offline")
def test_a_replica_does_not_move_to_a_folder_that_failed_meanwhile(two: TwoFolders, gate: Gate) -> None:
    # Another log of the folder had an error, and the copy had none: the replica went to the failed folder, and its log was deleted.
    first, second = two.folders
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        assert move(client, second, partition=1) == 0
        live.node.logs.failed(live.node.logs.folders.all[1], OSError(errno.EIO, "Input/output error"))
        wait_until(lambda: live.partition("in-1").lost, "the folder is offline")
        gate.open.set()
        moves = live.node.folder_moves
        copies = [live.partition("in-0", each) for each in range(2)]
        wait_until(lambda: moves is not None and not any(map(moves.future_of, copies)), "the copies are dropped")
        assert [each.log.directory.parent for each in copies] == [first, first]
        assert [produced(client, "in-0", each) for each in range(2)] == [0, 0]
    with two.start() as live, live.client() as client:
        assert fetched(client, "in-0") == (0, 2)


def test_what_comes_during_the_flush_is_copied_before_the_replacement(
    two: TwoFolders, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All that was written during a slow flush was copied by the data plane in one go.
    left: list[int] = []
    flush, replace = FutureLog.flush, FutureLog.replace
    with two.start() as live, live.client() as mover, live.client() as client:
        two.create(live)

        def flushing(future: FutureLog) -> int:
            for _ in range(0 if future.flushes else 5):
                assert produced(client, "in-0", value=500_000 * b"x") == 0
            return flush(future)

        def replacing(future: FutureLog, renamed: Path, now_ms: int, cleaned_to: int) -> PartitionLog:
            left.append(future.bytes_left())
            return replace(future, renamed, now_ms, cleaned_to)

        monkeypatch.setattr(FutureLog, "flush", flushing)
        monkeypatch.setattr(FutureLog, "replace", replacing)
        assert move(mover, two.folders[1]) == 0
        wait_until(lambda: folder_of(live) == two.folders[1], "the replica has moved")
        assert left == [0]
        assert fetched(client, "in-0") == (0, 6)


def test_a_name_that_is_too_long_for_the_folder_of_a_copy_is_refused(two: TwoFolders) -> None:
    # The name of the folder was cut, and the next start took it for the copy of another topic.
    with two.start() as live, live.client() as client:
        for name, code in ((213 * "t", 0), (214 * "t", ErrorCode.INVALID_TOPIC_EXCEPTION)):
            live.create_topic(name)
            source = folder_of(live, name)
            target = next(each for each in two.folders if each != source)
            assert move(client, target, name) == code
            if code == 0:
                wait_until(lambda name=name, target=target: folder_of(live, name) == target, "the replica has moved")
            else:
                assert list(described(client, name)) == [(str(source), False)]


def test_a_topic_that_is_deleted_does_not_move(two: TwoFolders, gate: Gate) -> None:
    second = two.folders[1]
    with two.start() as live, live.client() as client:
        two.create(live)
        assert move(client, second) == 0
        client.call(20, 6, {"topics": [{"name": "in-0", "topic_id": None}], "timeout_ms": 10_000})
        gate.open.set()
        wait_until(lambda: partitions_in(second) == ["in-1-0", "in-1-1"], "the copy is gone")


def test_a_consumer_that_waits_gets_the_records_after_the_move(two: TwoFolders) -> None:
    second = two.folders[1]
    with two.start() as live, live.client() as consumer, live.client() as client:
        two.create(live)
        consumer.send(1, 12, fetch_body(1, "in-0", max_wait_ms=2**31 - 1))
        assert move(client, second) == 0
        wait_until(lambda: folder_of(live) == second, "the replica has moved")
        assert produced(client, "in-0") == 0
        part = consumer.receive()[1].responses[0].partitions[0]
        assert (part.error_code, part.high_watermark) == (0, 2)
