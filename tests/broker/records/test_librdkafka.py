"""Batches both ways between us and librdkafka, in every codec, through its own mock cluster.

The mock cluster stores what it is given as it is: what the C client writes comes out for our reader, and what our builder
makes goes in for the C client to read, with its CRC checks on.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import confluent_kafka
import pytest

from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.record import NewRecord, Record

NOW_MS = 1_700_000_000_000
CODECS = {
    "none": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}


class MockCluster:
    """librdkafka's mock cluster, and a connection to it that speaks just enough Produce and Fetch."""

    def __init__(self) -> None:
        quiet = {"log_level": 2, "test.mock.num.brokers": 1, "bootstrap.servers": "none:1"}
        self._owner = confluent_kafka.Producer(quiet)
        [broker] = self._owner.list_topics(timeout=10).brokers.values()
        self.address = f"{broker.host}:{broker.port}"
        self._socket = socket.create_connection((broker.host, broker.port), timeout=10)
        self._answers = self._socket.makefile("rb")

    def close(self) -> None:
        self._answers.close()
        self._socket.close()
        del self._owner  # with it goes the mock cluster

    def _ask(self, key: int, version: int, body: bytes) -> bytes:
        request = struct.pack(">hhih", key, version, 7, -1) + body
        self._socket.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", self._answers.read(4))
        answer = self._answers.read(size)
        assert answer[:4] == struct.pack(">i", 7)
        return bytes(answer[4:])

    def produce(self, topic: str, records: bytes) -> None:
        self._owner.list_topics(topic, timeout=10)  # makes it
        name = topic.encode()
        answer = self._ask(
            0,
            7,
            struct.pack(">hhi", -1, -1, 5000)
            + struct.pack(f">ih{len(name)}s", 1, len(name), name)
            + struct.pack(">iii", 1, 0, len(records))
            + records,
        )
        (error,) = struct.unpack_from(">h", answer, 4 + 2 + len(name) + 4 + 4)
        assert error == 0

    def fetch(self, topic: str, offset: int) -> bytes:
        name = topic.encode()
        answer = self._ask(
            1,
            4,
            struct.pack(">iiiib", -1, 1000, 1, 1 << 24, 0)
            + struct.pack(f">ih{len(name)}s", 1, len(name), name)
            + struct.pack(">iiqi", 1, 0, offset, 1 << 24),
        )
        at = 4 + 4 + 2 + len(name) + 4 + 4
        error, _, _, aborted, size = struct.unpack_from(">hqqii", answer, at)
        assert (error, max(aborted, 0)) == (0, 0)
        return answer[-size:]


@pytest.fixture(scope="module")
def mock() -> Iterator[MockCluster]:
    cluster = MockCluster()
    yield cluster
    cluster.close()


def plenty() -> list[NewRecord]:
    return [
        NewRecord(
            None if number % 5 == 0 else b"key %d" % number,
            None if number % 7 == 0 else b"value %d " % number * (number % 40),
            NOW_MS + number,
            () if number % 3 else (("trace", b"\x00\xff"), ("empty", b""), ("null", None), ("trace", b"again")),
        )
        for number in range(500)
    ]


@pytest.mark.parametrize("codec", CODECS)
def test_we_read_what_librdkafka_writes(mock: MockCluster, codec: str) -> None:
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": mock.address, "compression.type": codec, "linger.ms": 20, "log_level": 2}
    )
    for record in plenty():
        producer.produce(
            f"to-us-{codec}",
            record.value,
            record.key,
            partition=0,
            timestamp=record.timestamp,
            headers=list(record.headers),
        )
    assert producer.flush(10) == 0
    found: list[Record] = []
    codecs = set()
    while len(found) < 500:
        before = len(found)
        for batch in iter_batches(mock.fetch(f"to-us-{codec}", len(found))):
            batch.ensure_valid()
            codecs.add(batch.compression)
            found += batch.records()
        assert len(found) > before
    assert found == [
        Record(offset, each.timestamp, each.key, each.value, each.headers) for offset, each in enumerate(plenty())
    ]
    assert CODECS[codec] in codecs


@pytest.mark.parametrize("codec", CODECS)
def test_librdkafka_reads_what_we_write(mock: MockCluster, codec: str) -> None:
    topic = f"from-us-{codec}"
    mock.produce(topic, bytes(build_batch(plenty(), compression=CODECS[codec])))
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": mock.address,
            "group.id": "unused",
            "check.crcs": True,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "log_level": 2,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        found: list[confluent_kafka.Message] = []
        while len(found) < 500:
            messages = consumer.consume(500, timeout=10)
            assert messages, f"only {len(found)} of 500 messages came"
            for message in messages:
                assert message.error() is None, message.error()
            found += messages
    finally:
        consumer.close()
    assert [Record(m.offset(), m.timestamp()[1], m.key(), m.value(), tuple(m.headers() or ())) for m in found] == [
        Record(offset, each.timestamp, each.key, each.value, each.headers) for offset, each in enumerate(plenty())
    ]
