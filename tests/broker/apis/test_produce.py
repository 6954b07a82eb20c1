"""Produce over a socket: offsets, acks, errors, idempotence, and the order of it all."""

from __future__ import annotations

import errno
import logging
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.compression import Compression
from streamactors.broker.replication.reading import ReadLimits
from streamactors.clock import VirtualClock
from tests.broker.live_broker import GatedDisk, LiveBroker, batch, fetch_body, produce_body
from tests.broker.wire import WireClient, wait_until


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveBroker]:
    with LiveBroker(tmp_path_factory.mktemp("produce")) as live:
        yield live


@pytest.fixture
def client(broker: LiveBroker) -> Iterator[WireClient]:
    with broker.client() as made:
        yield made


_topics = iter(f"topic-{number}" for number in range(10_000))


@pytest.fixture
def topic(broker: LiveBroker) -> str:
    name = next(_topics)
    broker.create_topic(name, 2)
    return name


def produced(client: WireClient, body: dict[str, Any], version: int = 9) -> Any:
    return client.call(0, version, body).responses[0].partition_responses[0]


@pytest.mark.parametrize("version", range(3, 13))
def test_every_version_appends_and_says_where(client: WireClient, topic: str, version: int) -> None:
    for expected in (0, 2, 4):
        answer = produced(client, produce_body(batch(b"a", b"b"), topic, acks=1), version)
        assert (answer.error_code, answer.base_offset, answer.index) == (0, expected, 0)
        assert answer.log_append_time_ms == -1
    if version >= 5:
        assert answer.log_start_offset == 0


def test_version_13_knows_topics_by_id(broker: LiveBroker, client: WireClient, topic: str) -> None:
    topic_id = broker.partition(topic).topic_id
    body = produce_body(batch(b"a"), topic)
    body["topic_data"][0]["topic_id"] = topic_id
    answer = client.call(0, 13, body)
    assert answer.responses[0].topic_id == topic_id
    assert answer.responses[0].partition_responses[0].base_offset == 0
    body["topic_data"][0]["topic_id"] = type(topic_id)(int=4711)
    assert produced(client, body, 13).error_code == ErrorCode.UNKNOWN_TOPIC_ID


@pytest.mark.parametrize("version", [0, 1, 2])
def test_versions_older_than_batches_take_batches(client: WireClient, topic: str, version: int) -> None:
    records = batch(b"a")
    name = topic.encode()
    body = struct.pack(">hi", 1, 1000) + struct.pack(">ih", 1, len(name)) + name
    body += struct.pack(">iii", 1, 0, len(records)) + records
    head = struct.pack(">hhih", 0, version, 7, 0)
    client.send_raw(struct.pack(">i", len(head) + len(body)) + head + body)
    frame = client.read_frame()
    assert frame[:4] == struct.pack(">i", 7)
    position = 4 + 4 + 2 + len(name) + 4
    assert struct.unpack_from(">ihq", frame, position) == (0, 0, 0)


def test_acks_0_gets_no_answer_and_keeps_its_order(broker: LiveBroker, client: WireClient, topic: str) -> None:
    client.send_raw(client.frame(0, 9, produce_body(batch(b"a"), topic, acks=0)) * 3)
    assert produced(client, produce_body(batch(b"b"), topic, acks=1)).base_offset == 3


def test_acks_0_with_an_error_closes_the_connection(
    client: WireClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    client.send(0, 9, produce_body(batch(b"a"), "no-such-topic", acks=0))
    assert client.closed_by_peer()
    assert "produce to no-such-topic-0 with acks=0 failed: UNKNOWN_TOPIC_OR_PARTITION" in caplog.text


def _corrupt(content: bytes) -> bytes:
    return content[:-1] + bytes([content[-1] ^ 1])


def _with_magic(content: bytes, magic: int) -> bytes:
    return content[:16] + bytes([magic]) + content[17:]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (_corrupt(batch(b"a")), ErrorCode.CORRUPT_MESSAGE),
        (batch(b"a") * 2, ErrorCode.INVALID_RECORD),
        (batch(b"a")[:40], ErrorCode.INVALID_RECORD),
        (batch(b"x" * 1_100_000), ErrorCode.MESSAGE_TOO_LARGE),
        (batch(b"a", timestamp=1 << 61), ErrorCode.INVALID_TIMESTAMP),
    ],
    ids=["null", "empty", "bad crc", "two batches", "cut short", "too large", "from the future"],
)
def test_a_batch_that_is_wrong_is_refused_and_nothing_is_written(
    broker: LiveBroker, client: WireClient, topic: str, records: bytes | None, error: ErrorCode
) -> None:
    answer = produced(client, produce_body(records, topic))
    assert (ErrorCode(answer.error_code), answer.base_offset) == (error, -1)
    assert broker.partition(topic).log_end_offset == 0


@pytest.mark.parametrize("magic", [0, 1, 3])
def test_other_message_formats_are_refused(client: WireClient, topic: str, magic: int) -> None:
    answer = produced(client, produce_body(_with_magic(batch(b"a"), magic), topic))
    assert answer.error_code in (
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_RECORD,
    )


def test_zstd_needs_version_7(client: WireClient, topic: str) -> None:
    records = batch(b"a" * 100, compression=Compression.ZSTD)
    assert produced(client, produce_body(records, topic), 6).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert produced(client, produce_body(records, topic), 7).error_code == 0


@pytest.mark.parametrize(
    ("name", "partition", "acks", "error"),
    [
        ("no-such-topic", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, 9, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, -1, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (None, 0, 2, ErrorCode.INVALID_REQUIRED_ACKS),
        (None, 0, -2, ErrorCode.INVALID_REQUIRED_ACKS),
    ],
)
def test_requests_that_cannot_be_served(
    client: WireClient, topic: str, name: str | None, partition: int, acks: int, error: ErrorCode
) -> None:
    answer = produced(client, produce_body(batch(b"a"), name or topic, partition, acks))
    assert ErrorCode(answer.error_code) == error


def test_partitions_of_one_request_succeed_and_fail_each_for_itself(client: WireClient, topic: str) -> None:
    body = produce_body(batch(b"a"), topic)
    body["topic_data"][0]["partition_data"] += [
        {"index": 1, "records": _corrupt(batch(b"b"))},
        {"index": 7, "records": batch(b"c")},
    ]
    body["topic_data"].append({"name": "no-such-topic", "partition_data": [{"index": 0, "records": batch(b"d")}]})
    answer = client.call(0, 9, body)
    errors = [[partition.error_code for partition in each.partition_responses] for each in answer.responses]
    assert errors == [
        [0, ErrorCode.CORRUPT_MESSAGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
        [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION],
    ]


def test_too_few_replicas_refuse_acks_all_only(broker: LiveBroker, client: WireClient) -> None:
    name = next(_topics)
    broker.create_topic(name, min_insync_replicas=2)
    assert produced(client, produce_body(batch(b"a"), name)).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
    assert produced(client, produce_body(batch(b"a"), name, acks=1)).error_code == 0
    assert broker.partition(name).log_end_offset == 1


def test_log_append_time_is_said(broker: LiveBroker, client: WireClient) -> None:
    name = next(_topics)
    broker.create_topic(name, message_timestamp_type="LogAppendTime")
    answer = produced(client, produce_body(batch(b"a", timestamp=5), name))
    assert abs(answer.log_append_time_ms - broker.node.clock.wall_ms()) < 60_000


def test_an_idempotent_producer_may_repeat_itself(broker: LiveBroker, client: WireClient, topic: str) -> None:
    producer = client.call(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1000})
    assert (producer.error_code, producer.producer_epoch) == (0, 0)
    identity = (producer.producer_id, 0)

    def send(sequence: int, count: int = 2, epoch: int = 0) -> Any:
        records = batch(*[b"x"] * count, producer=(identity[0], epoch), sequence=sequence)
        return produced(client, produce_body(records, topic))

    assert [send(0).base_offset, send(2).base_offset, send(4).base_offset] == [0, 2, 4]
    repeated = send(2)
    assert (repeated.error_code, repeated.base_offset) == (0, 2)
    assert broker.partition(topic).log_end_offset == 6
    assert send(8).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(0, epoch=1).base_offset == 6
    assert send(6).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert broker.partition(topic).log_end_offset == 8


# ---- waiting for the disk ----


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


def test_what_is_not_synced_is_not_seen(flushing: LiveBroker, disk: GatedDisk) -> None:
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
        frames.append(client.frame(0, 9, produce_body(_corrupt(records) if number == 1 else records)))
    client.send_raw(b"".join(frames))
    codes = [client.receive()[1].responses[0].partition_responses[0].error_code for _ in range(5)]
    out_of_order = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert codes == [0, ErrorCode.CORRUPT_MESSAGE, out_of_order, out_of_order, out_of_order]
    for number in range(1, 5):
        records = batch(b"%d" % number, producer=(producer_id, 0), sequence=number)
        assert produced(client, produce_body(records)).base_offset == number


def test_a_refusal_tells_where_the_log_starts_if_the_log_was_looked_at(broker: LiveBroker, client: WireClient) -> None:
    """As Apache Kafka 4.1.1 does, error by error."""
    topic = next(_topics)
    broker.create_topic(topic, max_message_bytes=10_000)
    for _ in range(3):
        produced(client, produce_body(batch(b"a"), topic))
    client.call(21, 2, delete_records(topic, 2))
    producer = client.call(22, 4, {"transactional_id": None, "transaction_timeout_ms": 1000}).producer_id
    assert produced(client, produce_body(batch(b"a", producer=(producer, 1), sequence=0), topic)).error_code == 0

    def refused(records: bytes | None) -> tuple[ErrorCode, int]:
        answer = produced(client, produce_body(records, topic))
        return ErrorCode(answer.error_code), answer.log_start_offset

    broken = bytearray(batch(b"a"))
    broken[-1] ^= 1
    with_offset = bytearray(batch(b"a"))
    with_offset[7] = 9
    future = batch(b"a", timestamp=2**41)
    assert refused(bytes(broken)) == (ErrorCode.CORRUPT_MESSAGE, -1)
    assert refused(batch(bytes(20_000))) == (ErrorCode.MESSAGE_TOO_LARGE, -1)
    assert refused(None) == refused(b"") == (ErrorCode.INVALID_RECORD, -1)
    assert refused(batch(b"a")[:40]) == (ErrorCode.INVALID_RECORD, -1)
    assert refused(batch(b"a") * 2) == (ErrorCode.INVALID_RECORD, -1)
    assert refused(bytes(with_offset)) == (ErrorCode.INVALID_RECORD, 2)
    assert refused(future) == (ErrorCode.INVALID_TIMESTAMP, 2)
    assert refused(batch(b"a", producer=(producer, 1), sequence=7)) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, 2)
    assert refused(batch(b"a", producer=(producer, 0), sequence=1)) == (ErrorCode.INVALID_PRODUCER_EPOCH, 2)


def delete_records(topic: str, offset: int) -> dict[str, Any]:
    partitions = [{"partition_index": 0, "offset": offset}]
    return {"topics": [{"name": topic, "partitions": partitions}], "timeout_ms": 30_000}


def test_acks_all_times_out_while_the_disk_hangs(tmp_path: Path, disk: GatedDisk) -> None:
    clock = VirtualClock()
    with LiveBroker(tmp_path, clock=clock, disk=disk) as live:
        live.create_topic("orders", flush_messages=1)
        client = live.client()
        disk.hold()
        client.send(0, 9, produce_body(batch(b"a", timestamp=clock.wall_ms()), timeout_ms=5_000))
        wait_until(lambda: disk.waiting == 1 and live.node.produce_purgatory.delayed == 1)
        clock.advance(5_001)
        answer = client.receive()[1].responses[0].partition_responses[0]
        assert answer.error_code == ErrorCode.REQUEST_TIMED_OUT
        disk.let_go()
        wait_until(lambda: live.partition("orders").high_watermark == 1)


def test_a_full_disk_refuses_appends_and_reads_go_on(
    flushing: LiveBroker, disk: GatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "streamactors")
    client = flushing.client()
    assert produced(client, produce_body(batch(b"a"))).error_code == 0
    disk.write_failures.append(OSError(errno.ENOSPC, "No space left on device"))
    assert produced(client, produce_body(batch(b"b"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(client, produce_body(batch(b"c"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    fetched = client.call(1, 12, fetch_body()).responses[0].partitions[0]
    assert (fetched.error_code, fetched.high_watermark) == (0, 1)


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
