"""Produce over a socket: offsets, acks, errors, idempotence, and the order of it all."""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.compression import Compression
from tests.broker.live_broker import LiveBroker, batch, corrupt, produce_body
from tests.broker.wire import WireClient


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


def _with_magic(content: bytes, magic: int) -> bytes:
    return content[:16] + bytes([magic]) + content[17:]


@pytest.mark.parametrize(
    ("records", "error"),
    [
        (None, ErrorCode.INVALID_RECORD),
        (b"", ErrorCode.INVALID_RECORD),
        (corrupt(batch(b"a")), ErrorCode.CORRUPT_MESSAGE),
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
        {"index": 1, "records": corrupt(batch(b"b"))},
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
    broker.create_topic(name)
    partition = broker.partition(name)
    state = dataclasses.replace(partition.state, replicas=(1, 2), min_insync_replicas=2)
    broker.on_data_plane(lambda: partition.become(state))
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


def test_clients_do_not_write_into_internal_topics(broker: LiveBroker) -> None:
    with broker.client() as client:  # what is not there is unknown, internal or not
        unknown = client.call(0, 9, produce_body(batch(b"a"), "__transaction_state"))
    assert unknown.responses[0].partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    broker.create_topic("__consumer_offsets")
    with broker.client() as client, broker.client(client_id="__admin_client") as admin:
        refused = client.call(0, 9, produce_body(batch(b"a"), "__consumer_offsets"))
        allowed = admin.call(0, 9, produce_body(batch(b"a"), "__consumer_offsets"))
    assert refused.responses[0].partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert allowed.responses[0].partition_responses[0].error_code in (0, ErrorCode.INVALID_RECORD)
