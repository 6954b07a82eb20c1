"""Replication between two whole brokers: records, high watermark, ISR, leader changes and divergence."""

from __future__ import annotations

import socket
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.apis.partition_view import possible_leaders
from streamactors.broker.cluster.reserved_ports import free_port
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    Endpoint,
    PartitionChange,
    PartitionRecord,
    RemoveTopic,
    TopicRecord,
)
from streamactors.broker.network.outgoing.links import LINKS
from streamactors.broker.replication import replica_fetcher
from streamactors.broker.replication.follower_state import Follow, judge_range
from streamactors.broker.replication.replicas import Replicas
from tests.broker.live_broker import GatedDisk, batch
from tests.broker.replication.two_brokers import EPOCHS, TOPIC, TOPIC_ID, Pair
from tests.broker.wire import wait_until

LATEST, EARLIEST, LARGEST_TIMESTAMP = -1, -2, -3
NEVER_MS = 1 << 60
PRODUCE = (0, 9)
FETCH = (1, 12)


def produce(
    pair: Pair, broker: int, *values: bytes, acks: int = -1, timeout_ms: int = 10_000, timestamp: int | None = None
) -> ErrorCode:
    body = {
        "acks": acks,
        "timeout_ms": timeout_ms,
        "topic_data": [
            {"name": TOPIC, "partition_data": [{"index": 0, "records": batch(*values, timestamp=timestamp)}]}
        ],
    }
    with pair.brokers[broker].client() as client:
        answer: Any = client.call(*PRODUCE, body)
    return ErrorCode(answer.responses[0].partition_responses[0].error_code)


def test_acks_all_is_answered_when_the_follower_has_the_record_and_the_logs_are_equal(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        for number in range(20):
            assert produce(pair, 1, f"v{number}".encode()) is ErrorCode.NONE
        assert pair.ends(1) == (20, 20)
        pair.until(lambda: pair.ends(2) == (20, 20))  # the follower learns the high watermark with the next answer
        assert pair.content(1) == pair.content(2)
        assert produce(pair, 2, b"x") is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_that_is_gone_leaves_the_isr_and_the_write_that_waited_succeeds(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"both")
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        assert produce(pair, 1, b"alone") is ErrorCode.NONE
        assert pair.committed.isr == (1,)
        assert pair.ends(1) == (2, 2)


def test_a_follower_that_has_stopped_does_not_follow_the_next_leader(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"both")
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        pair.elect(1, (1, 2))  # the same leader, in epoch 1
        assert produce(pair, 1, b"alone") is ErrorCode.NONE
        assert pair.committed.isr == (1,)


def test_a_follower_comes_back_into_the_isr_and_an_answer_that_was_lost_does_no_harm(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        pair.refusals = [ErrorCode.NOT_CONTROLLER, ErrorCode.INELIGIBLE_REPLICA]  # asked again, proposed again
        pair.elect(1, (1,))
        pair.until(lambda: pair.committed.isr == (1, 2))
        assert pair.refusals == []
        assert produce(pair, 1, b"both") is ErrorCode.NONE
        pair.until(lambda: pair.ends(2) == (1, 1))


def test_a_fenced_follower_is_not_taken_into_the_isr(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        pair.write(BrokerRegistrationChange(2, EPOCHS[2], fenced=1))
        pair.elect(1, (1,))
        assert produce(pair, 1, b"one") is ErrorCode.NONE
        pair.until(lambda: pair.ends(2)[1] == 1)
        assert pair.committed.isr == (1,)
        pair.write(BrokerRegistrationChange(2, EPOCHS[2], fenced=-1))
        pair.until(lambda: pair.committed.isr == (1, 2))


def test_a_write_fails_at_once_when_another_broker_is_elected(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        with pair.brokers[1].client() as client:
            body = {
                "acks": -1,
                "timeout_ms": 60_000,
                "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch(b"waits")}]}],
            }
            client.send(*PRODUCE, body)
            pair.until(lambda: pair.ends(1)[1] == 1)
            pair.elect(2, (1, 2))
            answer: Any = client.receive()[1]
            assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_records_that_the_new_leader_never_had_are_truncated(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"kept")
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        for value in (b"lost", b"lost too"):
            assert produce(pair, 1, value, acks=1) is ErrorCode.NONE
        pair.elect(2, (2,))
        assert produce(pair, 2, b"new") is ErrorCode.NONE
        pair.until(lambda: pair.ends(1) == (2, 2))
        assert pair.content(1) == pair.content(2)
        assert b"lost" not in pair.content(1)
        assert pair.partition(1).log.epochs.encode() == pair.partition(2).log.epochs.encode()


def test_a_leader_of_an_epoch_without_records_follows_the_next_leader(tmp_path: Path) -> None:
    # Its log named that epoch in every fetch. The next leader, which has no such epoch, answered with the end of the epoch before, and never
    # with records: the replica stood still until its disk was emptied. make chaos found it.
    with Pair(tmp_path) as pair:
        assert produce(pair, 1, b"kept") is ErrorCode.NONE
        pair.elect(1, (1, 2))
        pair.elect(2, (1, 2))
        assert produce(pair, 2, b"new") is ErrorCode.NONE
        pair.until(lambda: pair.ends(1) == (2, 2))
        assert pair.content(1) == pair.content(2)
        assert pair.partition(1).log.epochs.encode() == pair.partition(2).log.epochs.encode()


def test_a_follower_of_another_epoch_or_registration_is_refused(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        produce(pair, 1, b"one", acks=1)
        pair.elect(1, (1,))  # the same leader, in epoch 1
        for leader_epoch, broker_epoch, expected in (
            (0, EPOCHS[2], ErrorCode.FENCED_LEADER_EPOCH),
            (2, EPOCHS[2], ErrorCode.UNKNOWN_LEADER_EPOCH),
            (1, EPOCHS[2] - 1, ErrorCode.NOT_LEADER_OR_FOLLOWER),
            (1, EPOCHS[2], ErrorCode.NONE),
        ):
            asked = {
                "partition": 0,
                "current_leader_epoch": leader_epoch,
                "fetch_offset": 0,
                "last_fetched_epoch": -1,
                "partition_max_bytes": 1 << 20,
            }
            body = {
                "replica_state": {"replica_id": 2, "replica_epoch": broker_epoch},
                "max_wait_ms": 0,
                "min_bytes": 1,
                "max_bytes": 1 << 20,
                "session_epoch": -1,
                "topics": [{"topic_id": pair.partition(1).topic_id, "partitions": [asked]}],
            }
            with pair.brokers[1].client() as client:
                answer: Any = client.call(1, 17, body)
            (got,) = answer.responses[0].partitions
            assert got.error_code == expected, expected
            if expected is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
                assert (got.current_leader.leader_id == 1) == (expected is ErrorCode.FENCED_LEADER_EPOCH)


def listed(pair: Pair, broker: int, timestamp: int, version: int = 5, isolation: int = 0) -> tuple[ErrorCode, int]:
    wanted = {"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}
    body = {
        "replica_id": -1,
        "isolation_level": isolation,
        "topics": [{"name": TOPIC, "partitions": [wanted]}],
    }
    with pair.brokers[broker].client() as client:
        found: Any = client.call(2, version, body).topics[0].partitions[0]
    return ErrorCode(found.error_code), found.offset


def test_a_new_leader_names_no_end_before_it_knows_the_high_watermark(tmp_path: Path) -> None:
    # It named its own high watermark, which is behind that of the leader that died: who read to this end, such as a task that restored
    # its state, missed acknowledged records.
    with Pair(tmp_path, settings={"replica.fetch.wait.max.ms": 60_000, "replica.lag.time.max.ms": 120_000}) as pair:
        assert produce(pair, 1, b"one", timestamp=1_000) is ErrorCode.NONE
        assert (
            produce(pair, 1, b"two", timestamp=2_000) is ErrorCode.NONE
        )  # the largest: of two equal ones the first counts
        assert pair.ends(2) == (1, 2)  # the next answer would have told the follower
        pair.elect(2, (1, 2), only=2)
        for isolation in (0, 1):
            assert listed(pair, 2, LATEST, isolation=isolation) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert listed(pair, 2, LATEST, version=4) == (ErrorCode.LEADER_NOT_AVAILABLE, -1)
        assert listed(pair, 2, EARLIEST) == (ErrorCode.NONE, 0)
        assert listed(pair, 2, LARGEST_TIMESTAMP, version=7) == (ErrorCode.OFFSET_NOT_AVAILABLE, -1)
        assert listed(pair, 2, 0) == (ErrorCode.NONE, 0)
        assert listed(pair, 2, NEVER_MS) == (ErrorCode.NONE, -1)
        pair.elect(2, (1, 2))
        pair.until(lambda: pair.ends(2) == (2, 2))
        assert listed(pair, 2, LATEST) == (ErrorCode.NONE, 2)
        assert listed(pair, 2, LARGEST_TIMESTAMP, version=7) == (ErrorCode.NONE, 1)


def test_a_follower_in_sync_has_a_session_and_its_idle_fetches_look_at_nothing(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"a")
        pair.until(lambda: pair.ends(2) == (1, 1))
        sessions = pair.brokers[1].node.fetch_sessions
        pair.until(lambda: len(sessions) == 1)
        session = next(iter(pair.partition(1).sessions))
        assert session.of_follower
        pair.until(lambda: not session.changed)
        assert produce(pair, 1, b"b") is ErrorCode.NONE
        pair.until(lambda: pair.ends(2) == (2, 2) and not session.changed)


def test_a_leader_is_lost_while_nobody_listens_at_its_address(tmp_path: Path) -> None:
    # The leader died between two fetches -> no request failed, and the next connection was refused -> clients heard of the dead leader for long.
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"both")
        node = pair.brokers[2].node
        replicas = node.replication
        assert replicas is not None
        assert list(replicas.lost_leaders) == []
        assert set(possible_leaders(node)) == {1, 2}
        closed = free_port()
        for port, lost in ((closed, [1]), (pair.brokers[1].port, [])):
            endpoint = Endpoint("PLAINTEXT", "127.0.0.1", port)
            pair.write(BrokerRegistration(1, uuid.uuid4(), EPOCHS[1], (endpoint,)), only=2)
            pair.until(lambda lost=lost: list(replicas.lost_leaders) == lost)  # type: ignore[misc]
            assert list(replicas.refusing_leaders) == lost
            assert set(possible_leaders(node)) == {1, 2} - set(lost)


@pytest.mark.parametrize("fences", [True, False])
def test_a_leader_that_only_closed_its_connection_is_named_unless_the_controller_would_fence_it(fences: bool) -> None:
    replication = SimpleNamespace(lost_leaders=[1, 3], refusing_leaders=[3])
    config = SimpleNamespace(controller_fence_closed_connections=fences)
    metadata = SimpleNamespace(image=SimpleNamespace(brokers={1: "one", 2: "two", 3: "three"}))
    node: Any = SimpleNamespace(replication=replication, config=config, metadata=metadata)
    assert set(possible_leaders(node)) == ({2} if fences else {1, 2})


def test_a_follower_begins_anew_when_its_leader_has_lost_the_session(tmp_path: Path) -> None:
    with Pair(tmp_path) as pair:
        produce(pair, 1, b"a")
        live = pair.brokers[1]
        pair.until(lambda: len(live.node.fetch_sessions) == 1)
        (lost,) = pair.partition(1).sessions
        live.on_data_plane(lambda: live.node.fetch_sessions.remove(lost.id))
        assert produce(pair, 1, b"b") is ErrorCode.NONE
        pair.until(lambda: pair.ends(2) == (2, 2))
        assert pair.committed.isr == (1, 2)


def test_a_slow_disk_of_a_follower_delays_acks_all_and_not_its_data_plane(tmp_path: Path) -> None:
    # A follower of a topic with flush.messages synced on its data plane: no client of that broker was served meanwhile.
    disk = GatedDisk()
    with Pair(
        tmp_path, settings={"log.flush.interval.messages": 1, "replica.lag.time.max.ms": 60_000}, disks={2: disk}
    ) as pair:
        disk.hold()
        assert produce(pair, 1, b"a", acks=1) is ErrorCode.NONE
        pair.until(lambda: disk.waiting > 0)
        assert pair.brokers[2].on_data_plane(lambda: "served") == "served"
        assert pair.partition(1).high_watermark == 0, "the follower has not said that it has the record"
        disk.let_go()
        pair.until(lambda: pair.ends(1) == pair.ends(2) == (1, 1))


@pytest.mark.expects_log("the partition is offline for writes", "was not closed cleanly")
def test_a_follower_whose_sync_fails_fetches_again(tmp_path: Path) -> None:
    disk = GatedDisk()
    with Pair(tmp_path, settings={"log.flush.interval.messages": 1}, disks={2: disk}) as pair:
        disk.failures.append(OSError(5, "input/output error"))
        assert produce(pair, 1, b"a", acks=1) is ErrorCode.NONE
        pair.until(lambda: not disk.failures)
        assert pair.brokers[2].on_data_plane(lambda: "served") == "served"


def test_the_kernel_takes_a_fetch_of_a_follower_at_once_and_those_of_clients_as_configured(tmp_path: Path) -> None:
    with Pair(tmp_path, settings={"socket.send.buffer.bytes": 64 << 10, "replica.fetch.max.bytes": 512 << 10}) as pair:
        assert produce(pair, 1, b"both") is ErrorCode.NONE  # the follower has fetched
        with pair.brokers[1].client() as client:
            client.call(18, 0, {})
            connections = pair.brokers[1].node.processor.connections.values()
            sizes = sorted(each.socket.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) for each in connections)
    assert sizes == [2 * (64 << 10), 2 * (512 << 10)]  # Linux doubles what it is asked for


def test_a_partition_that_goes_while_the_range_of_its_leader_is_asked_for_does_not_end_the_copying(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The log of a follower was out of the leader's range -> the follower asked for the range -> the topic was deleted -> the answer came, and the
    # follower looked for a partition that it did not follow any more. No partition of this leader was copied after that.
    other = uuid.UUID(int=78)
    told: list[int] = []

    def judge(*args: Any) -> Any:
        told.append(args[3])
        return judge_range(*args)

    monkeypatch.setattr(replica_fetcher, "judge_range", judge)
    with Pair(tmp_path, settings={"replica.lag.time.max.ms": 60_000}) as pair:
        live = pair.brokers[2]
        live.on_data_plane(live.replicas.stop)  # type: ignore[attr-defined]
        pair.write(TopicRecord("other", other), PartitionRecord(0, other, (1, 2), (1, 2), 1, 0, 0))
        for number in range(5):
            produce(pair, 1, f"v{number}".encode(), acks=1)
        leader = pair.partition(1).log
        leader.advance_high_watermark(5)
        leader.roll(0)
        leader.trim.advance_log_start(4, 0)
        follower = Replicas(live.node, live.node.partitions, *[live.replicas._membership] * 2)  # type: ignore[attr-defined]
        live.node.replication = live.replicas = follower  # type: ignore[attr-defined]
        live.on_data_plane(follower.start)
        LINKS.disturb((), {("127.0.0.1", pair.brokers[1].port): 50.0})
        try:
            pair.write(
                PartitionChange(0, TOPIC_ID, leader=1), PartitionChange(0, other, leader=1)
            )  # the follower begins to copy both

            def delete_while_asking() -> bool:
                fetcher = follower._fetchers.get(1)
                asking = fetcher is not None and any(
                    each.doing is Follow.FINDING_RANGE for each in fetcher._followed.values()
                )
                if asking:
                    pair.write(RemoveTopic(TOPIC_ID), only=2)
                return asking

            pair.until(lambda: live.on_data_plane(delete_while_asking))
        finally:
            LINKS.disturb((), {})
        wait_until(lambda: bool(told), "the leader has named its range")
        copied = live.partition("other")
        for number in (1, 2):  # a fetch that is under way may bring the first one
            body = {
                "acks": 1,
                "timeout_ms": 10_000,
                "topic_data": [{"name": "other", "partition_data": [{"index": 0, "records": batch(b"new")}]}],
            }
            with pair.brokers[1].client() as client:
                answer: Any = client.call(*PRODUCE, body)
            assert answer.responses[0].partition_responses[0].error_code == 0
            wait_until(lambda number=number: copied.log_end_offset == number, "the other partition is copied")  # type: ignore[misc]
