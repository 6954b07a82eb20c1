"""Produce to a topic that is flushed before it is answered: what waits for the disk, and what its failures take back."""

from __future__ import annotations

import dataclasses
import errno
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.reading import ReadLimits
from streamactors.clock import VirtualClock
from tests.broker.live_broker import GatedDisk, LiveBroker, batch, corrupt, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until


def produced(client: WireClient, body: dict[str, Any], version: int = 9) -> Any:
    return client.call(0, version, body).responses[0].partition_responses[0]


@pytest.fixture
def disk() -> GatedDisk:
    return GatedDisk()


@pytest.fixture
def flushing(tmp_path: Path, disk: GatedDisk) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        yield live
        disk.let_go()


@pytest.mark.parametrize("acks", [1, -1])
def test_no_answer_leaves_before_the_sync_that_covers_it(flushing: LiveBroker, disk: GatedDisk, acks: int) -> None:
    client = flushing.client()
    disk.hold()
    client.send(0, 9, produce_body(batch(b"a"), acks=acks))
    wait_until(lambda: disk.waiting == 1)
    flushing.on_data_plane(lambda: None)
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.read_frame()
    client.socket.settimeout(30)
    disk.let_go()
    assert client.receive()[1].responses[0].partition_responses[0].base_offset == 0


def test_unsynced_records_are_not_visible(flushing: LiveBroker, disk: GatedDisk) -> None:
    producer, consumer = flushing.client(), flushing.client()
    disk.hold()
    producer.send(0, 9, produce_body(batch(b"a")))
    wait_until(lambda: disk.waiting == 1)
    partition = consumer.call(1, 12, fetch_body()).responses[0].partitions[0]
    assert (partition.error_code, partition.high_watermark, partition.records) == (0, 0, b"")
    consumer.send(1, 12, fetch_body(max_wait_ms=30_000))
    disk.let_go()
    partition = consumer.receive()[1].responses[0].partitions[0]
    assert partition.high_watermark == 1
    assert len(partition.records) > 0


@pytest.mark.parametrize("flush_messages", [1, 3])
def test_records_of_acks_0_are_synced_and_visible_too(tmp_path: Path, disk: GatedDisk, flush_messages: int) -> None:
    with LiveBroker(tmp_path, disk=disk) as live:
        live.create_topic("orders", flush_messages=flush_messages)
        producer, consumer = live.client(), live.client()
        disk.hold()
        for _ in range(3):
            producer.send(0, 9, produce_body(batch(b"a"), acks=0))
        wait_until(lambda: live.partition("orders").log_end_offset == 3)
        wait_until(lambda: disk.waiting == 1, "a sync")
        assert live.on_data_plane(lambda: live.partition("orders").high_watermark) == flush_messages // 3 * 2
        consumer.send(1, 12, fetch_body(2, max_wait_ms=30_000))
        disk.let_go()
        partition = consumer.receive()[1].responses[0].partitions[0]
        assert (partition.high_watermark, bool(partition.records)) == (3, True)


def test_a_fetch_of_records_that_a_failed_sync_removed_is_answered_at_once(
    flushing: LiveBroker, disk: GatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "streamactors")
    producer, consumer = flushing.client(), flushing.client()
    disk.hold()
    disk.failures.append(OSError(errno.EIO, "Input/output error"))
    for _ in range(2):
        producer.send(0, 9, produce_body(batch(b"a"), acks=0))
    wait_until(lambda: flushing.partition("orders").log_end_offset == 2)
    consumer.send(1, 12, fetch_body(1, max_wait_ms=2**31 - 1))
    wait_until(lambda: flushing.on_data_plane(lambda: flushing.node.fetch_purgatory.delayed) == 1)
    disk.let_go()
    partition = consumer.receive()[1].responses[0].partitions[0]
    assert partition.error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_one_answer_that_fails_keeps_no_other_back(
    flushing: LiveBroker, disk: GatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "streamactors")

    def fail(outcome: object) -> None:
        raise RuntimeError("a coordinator's mistake")

    client = flushing.client()
    disk.hold()
    flushing.on_data_plane(lambda: flushing.node.partitions.append("orders", 0, bytearray(batch(b"a")), fail))
    client.send(0, 9, produce_body(batch(b"b")))
    wait_until(lambda: flushing.partition("orders").log_end_offset == 2)
    disk.let_go()
    answer = client.receive()[1].responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (0, 1)


def test_requests_in_flight_share_syncs_and_are_answered_in_order(flushing: LiveBroker, disk: GatedDisk) -> None:
    client = flushing.client()
    disk.hold()
    before = disk.syncs
    sent = [client.send(0, 9, produce_body(batch(b"%d" % number))) for number in range(50)]
    wait_until(lambda: flushing.partition("orders").log_end_offset == 50)
    disk.let_go()
    answers = [client.receive() for _ in range(50)]
    assert [correlation_id for correlation_id, _ in answers] == sent
    assert [answer.responses[0].partition_responses[0].base_offset for _, answer in answers] == list(range(50))
    assert disk.syncs - before <= 3


def test_one_at_a_time_without_pipelining(tmp_path: Path, disk: GatedDisk) -> None:
    with LiveBroker(tmp_path, {"pipelining": False}, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        client = live.client()
        disk.hold()
        for number in range(5):
            client.send(0, 9, produce_body(batch(b"%d" % number)))
        wait_until(lambda: disk.waiting == 1)
        for _ in range(3):
            live.on_data_plane(lambda: None)
        assert live.partition("orders").log_end_offset == 1
        before = disk.syncs
        disk.let_go()
        offsets = [client.receive()[1].responses[0].partition_responses[0].base_offset for _ in range(5)]
        assert offsets == list(range(5))
        assert disk.syncs - before == 5


def test_a_failed_sync_fails_its_batch_and_those_behind_it_and_a_retry_succeeds(
    flushing: LiveBroker, disk: GatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    # five in flight, the sync of the second fails: 56 for it, 45 for the three behind, nothing of them stays
    caplog.set_level(logging.CRITICAL, "streamactors")
    client = flushing.client()
    producer_id = client.call(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1000}).producer_id

    def send(number: int) -> None:
        records = batch(b"%d" % number, producer=(producer_id, 0), sequence=number)
        client.send(0, 9, produce_body(records))

    def receive() -> Any:
        return client.receive()[1].responses[0].partition_responses[0]

    send(0)
    assert receive().error_code == 0
    disk.hold()
    disk.failures.append(OSError(errno.EIO, "Input/output error"))
    for number in range(1, 5):
        send(number)
    wait_until(lambda: flushing.partition("orders").log_end_offset == 5)
    disk.let_go()
    errors = [ErrorCode(receive().error_code) for _ in range(4)]
    assert errors == [ErrorCode.KAFKA_STORAGE_ERROR] + [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 3
    assert flushing.partition("orders").log_end_offset == 1
    for number in range(1, 5):
        send(number)
    answers = [receive() for _ in range(4)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [(0, 1), (0, 2), (0, 3), (0, 4)]
    fetched = client.call(1, 12, fetch_body()).responses[0].partitions[0]
    assert fetched.high_watermark == 5


def test_later_batches_of_a_failed_one_are_out_of_order_when_it_failed_at_once(
    flushing: LiveBroker, disk: GatedDisk
) -> None:
    # five in flight, the second is refused: the three behind it do not follow the first
    client = flushing.client()
    producer_id = client.call(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1000}).producer_id
    frames = []
    for number in range(5):
        records = batch(b"%d" % number, producer=(producer_id, 0), sequence=number)
        frames.append(client.frame(0, 9, produce_body(corrupt(records) if number == 1 else records)))
    client.send_raw(b"".join(frames))
    codes = [client.receive()[1].responses[0].partition_responses[0].error_code for _ in range(5)]
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert codes == [0, ErrorCode.CORRUPT_MESSAGE, out_of_order, out_of_order, out_of_order]
    for number in range(1, 5):
        records = batch(b"%d" % number, producer=(producer_id, 0), sequence=number)
        assert produced(client, produce_body(records)).base_offset == number


def test_acks_all_times_out_while_the_disk_hangs(tmp_path: Path, disk: GatedDisk) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        client = live.client()
        disk.hold()
        client.send(0, 9, produce_body(batch(b"a", timestamp=clock.wall_ms()), timeout_ms=5_000))
        wait_until(lambda: disk.waiting == 1 and live.node.produce_purgatory.delayed == 1)
        clock.advance("5001ms")
        answer = client.receive()[1].responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        disk.let_go()
        wait_until(lambda: live.partition("orders").high_watermark == 1)


def test_a_full_disk_refuses_an_append_and_takes_the_next_one_when_there_is_space(
    flushing: LiveBroker, disk: GatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "streamactors")
    client = flushing.client()
    assert produced(client, produce_body(batch(b"a"))).error_code == 0
    disk.write_failures.append(OSError(errno.ENOSPC, "No space left on device"))
    assert produced(client, produce_body(batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    fetched = client.call(1, 12, fetch_body()).responses[0].partitions[0]
    assert (fetched.error_code, fetched.high_watermark) == (0, 1)
    assert produced(client, produce_body(batch(b"c"))).base_offset == 1


@pytest.mark.parametrize(
    ("acks", "change", "code"),
    [
        (-1, {"min_insync_replicas": 2}, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (1, {"min_insync_replicas": 2}, ErrorCode.NONE),
        (-1, {"leader": 7, "leader_epoch": 9}, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
    ids=["too few replicas", "too few, but acks 1", "another leader"],
)
def test_a_waiting_produce_answers_with_the_changes_during_its_wait(
    flushing: LiveBroker, disk: GatedDisk, acks: int, change: dict[str, int], code: ErrorCode
) -> None:
    client, partition = flushing.client(), flushing.partition("orders")
    disk.hold()
    client.send(0, 9, produce_body(batch(b"a"), acks=acks))
    wait_until(lambda: flushing.node.produce_purgatory.delayed == 1)
    before = partition.state
    flushing.on_data_plane(lambda: partition.become(dataclasses.replace(before, **change)))
    disk.let_go()
    assert client.receive()[1].responses[0].partition_responses[0].error_code == code
    assert partition.log_end_offset == 1
    flushing.on_data_plane(lambda: partition.become(before))


def test_a_topic_deleted_while_a_produce_waits(flushing: LiveBroker, disk: GatedDisk) -> None:
    client, admin = flushing.client(), flushing.client()
    disk.hold()
    client.send(0, 9, produce_body(batch(b"a")))
    wait_until(lambda: flushing.node.produce_purgatory.delayed == 1)
    admin.send(20, 4, {"topic_names": ["orders"], "timeout_ms": 1000})
    wait_until(lambda: flushing.node.partitions.get("orders", 0) is None)
    disk.let_go()
    code = client.receive()[1].responses[0].partition_responses[0].error_code
    assert code in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.KAFKA_STORAGE_ERROR)


def test_internal_appends_answer_when_they_are_durable(flushing: LiveBroker, disk: GatedDisk) -> None:
    outcomes: list[Any] = []
    disk.hold()
    flushing.on_data_plane(
        lambda: flushing.node.partitions.append("orders", 0, bytearray(batch(b"a")), outcomes.append)
    )
    wait_until(lambda: disk.waiting == 1)
    assert outcomes == []
    disk.let_go()
    wait_until(lambda: len(outcomes) == 1)
    assert outcomes[0] == (ErrorCode.NONE, 0, 0)
    flushing.on_data_plane(
        lambda: flushing.node.partitions.append("orders", 5, bytearray(batch(b"a")), outcomes.append)
    )
    assert outcomes[1].error == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_read_limits_follow_the_isolation_level(flushing: LiveBroker) -> None:
    partition = flushing.partition("orders")
    assert ReadLimits(1, 1, 0).bound(partition) == partition.high_watermark
    assert ReadLimits(1, 1, 1).bound(partition) == partition.last_stable_offset
