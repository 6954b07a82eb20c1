"""Our log beside Apache Kafka's: its dump-log tool over our segments, our log over a folder that it wrote, and back.

Needs Java and Maven; Kafka comes from its Maven packages."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.control import build_marker
from streamactors.broker.records.header import LOG_APPEND_TIME
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin
from tests.broker.log.manual_pool import ManualPool
from tests.broker.wire import WireClient
from tests.differential.apache_kafka import broker as apache

pytestmark = [
    pytest.mark.differential,
    pytest.mark.skipif(not apache.found(), reason="Java or Maven is not here"),
    pytest.mark.timeout(600),
]

NOW_MS = 1_700_000_000_000


def write_everything(log: PartitionLog, batches: int) -> None:
    """Records of every codec, headers, nulls; idempotent and transactional ones; markers; several leader epochs."""
    rng = random.Random(7)
    sequence = 0
    for number in range(batches):
        epoch = max(number * 4 // batches, log.latest_epoch)
        records = [
            NewRecord(
                b"key %d" % rng.randrange(30),
                None if rng.random() < 0.1 else b"value %d " % number * rng.randrange(20),
                NOW_MS + 10 * number + rng.randrange(-40, 40),
                (("header", b"x"), ("null", None)) if rng.random() < 0.3 else (),
            )
            for _ in range(rng.randrange(1, 6))
        ]
        codec = Compression(number % 5)
        if number % 3 == 0:
            batch = build_batch(
                records,
                compression=codec,
                producer_id=4711,
                producer_epoch=2,
                base_sequence=sequence,
                transactional=True,
            )
            sequence += len(records)
            log.append_as_leader(memoryview(batch), epoch, NOW_MS)
            if number % 6 == 0:
                marker = build_marker(
                    4711, 2, committed=number % 12 == 0, coordinator_epoch=5, timestamp_ms=NOW_MS + 10 * number
                )
                log.append_as_leader(memoryview(marker), epoch, NOW_MS, AppendOrigin.COORDINATOR)
        else:
            log.append_as_leader(memoryview(build_batch(records, compression=codec)), epoch, NOW_MS)
    log.advance_high_watermark(log.hw_limit)


def dump(folder: Path, *patterns: str) -> str:
    files = sorted(str(path) for pattern in patterns for path in folder.glob(pattern))
    assert files
    return apache.tool("org.apache.kafka.tools.DumpLogSegments", "--files", ",".join(files), "--deep-iteration")


BATCH = re.compile(
    r"^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) producerId: (-?\d+) "
    r"producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) isControl: (\w+) "
    r"deleteHorizonMs: (\S+) position: \d+ (\w+): (-?\d+) size: (\d+) magic: 2 compresscodec: (\w+) crc: (\d+) isvalid: (\w+)$"
)
RECORD = re.compile(
    r"^\| offset: (\d+) \w+: (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) sequence: (-?\d+) headerKeys: \[(.*?)\]"
)


def as_dumped(batch: RecordBatch) -> tuple[str, ...]:
    horizon = batch.delete_horizon_ms
    return tuple(
        str(each)
        for each in (
            batch.base_offset,
            batch.last_offset,
            batch.count,
            batch.base_sequence,
            batch.last_sequence,
            batch.producer_id,
            batch.producer_epoch,
            batch.leader_epoch,
            str(batch.is_transactional).lower(),
            str(batch.is_control).lower(),
            "OptionalLong.empty" if horizon is None else f"OptionalLong[{horizon}]",
            "LogAppendTime" if batch.attributes & LOG_APPEND_TIME else "CreateTime",
            batch.max_timestamp,
            batch.size,
            batch.compression.name.lower(),
            batch.crc,
            "true",
        )
    )


def check_dump(log: PartitionLog, text: str) -> None:
    """The tool saw the batches and records that we see, and found nothing wrong."""
    for complaint in ("ismatch", "Found", "not found", "corrupt", "Could not"):
        assert complaint not in text, next(line for line in text.splitlines() if complaint in line)
    ours = list(log.reader.replay(0, log.end_offset))
    lines = text.splitlines()
    assert [match.groups() for line in lines if (match := BATCH.match(line))] == [as_dumped(batch) for batch in ours]
    theirs = [match.groups() for line in lines if (match := RECORD.match(line))]
    expected = []
    for batch in ours:
        for record in batch.records():
            sequence = batch.base_sequence + record.offset - batch.base_offset if batch.base_sequence >= 0 else -1
            sizes = [len(each) if each is not None else -1 for each in (record.key, record.value)]
            keys = ",".join(name for name, _ in record.headers)
            expected.append(tuple(map(str, (record.offset, record.timestamp, *sizes, sequence, keys))))
    assert theirs == expected


def make_log(folder: Path, **settings: object) -> PartitionLog:
    config = LogConfig(**{"segment_bytes": 6_000, "index_interval_bytes": 300, **settings})  # type: ignore[arg-type]
    return PartitionLog.create(Disk(), folder / "t-0", "t", 0, None, config, pool=ManualPool(), now_ms=NOW_MS)


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_apache_kafkas_dump_tool_reads_our_segments_and_indexes(tmp_path: Path, timestamp_type: str) -> None:
    log = make_log(tmp_path, message_timestamp_type=timestamp_type)
    write_everything(log, 200)
    assert len(log.segments) > 4
    log.close()
    check_dump(log, dump(log.directory, "*.log", "*.index", "*.timeindex"))


def test_apache_kafkas_dump_tool_reads_our_transaction_indexes_and_snapshots(tmp_path: Path) -> None:
    log = make_log(tmp_path)
    write_everything(log, 200)
    aborted = log.reader.aborted_transactions(0, log.end_offset)
    [producer] = log.producers()
    log.close()
    text = dump(log.directory, "*.txnindex")
    found = re.findall(r"producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)", text)
    assert [tuple(map(int, each)) for each in found] == [tuple(each) for each in aborted]
    assert len(aborted) > 5
    text = dump(log.directory, f"{log.end_offset:020d}.snapshot")
    assert f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} " in text
    assert f"lastSequence: {producer.last_sequence}" in text
    assert f"lastOffset: {producer.last_offset} " in text
    assert f"currentTxnFirstOffset: {producer.transaction_first_offset}" in text.replace("Optional[", "").replace(
        "]", ""
    ) or (producer.transaction_first_offset < 0)


def test_apache_kafkas_dump_tool_reads_what_our_compaction_leaves(tmp_path: Path) -> None:
    log = make_log(tmp_path, cleanup_policy=("compact",))
    write_everything(log, 200)
    log.roll(NOW_MS)
    cleaner = Cleaner(lambda: [log], None)
    before = log.size_bytes
    assert cleaner.clean(log, NOW_MS)
    assert log.size_bytes < before / 2
    log.close()
    check_dump(log, dump(log.directory, "*.log", "*.index", "*.timeindex"))


# ---- folders that change hands ----


@pytest.fixture
def kafka(tmp_path: Path) -> Iterator[apache.ApacheKafka]:
    server = apache.ApacheKafka(tmp_path / "kafka-data")
    server.start()
    yield server
    server.kill()


def create_topic(kafka: apache.ApacheKafka, name: str, **config: str) -> None:
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.address})
    topic = confluent_kafka.admin.NewTopic(
        name, 1, 1, config={key.replace("_", "."): value for key, value in config.items()}
    )
    admin.create_topics([topic])[name].result(30)


def produce(kafka: apache.ApacheKafka, topic: str, start: int, count: int, **settings: object) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "linger.ms": 5, **settings})  # type: ignore[arg-type]
    for number in range(start, start + count):
        producer.produce(topic, b"%d " % number * 40, b"key %d" % (number % 50), partition=0, timestamp=NOW_MS + number)
        if number % 200 == 0:
            producer.flush()
    assert producer.flush(60) == 0


def transact(kafka: apache.ApacheKafka, topic: str, value: bytes, commit: bool) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "transactional.id": "t"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, value, b"key", partition=0, timestamp=NOW_MS)
    producer.flush()
    if commit:
        producer.commit_transaction(30)
    else:
        producer.abort_transaction(30)


def consume(kafka: apache.ApacheKafka, topic: str, end: int) -> list[tuple[int, bytes | None]]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": "g",
            "isolation.level": "read_committed",
            "check.crcs": True,
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
        seen: list[tuple[int, bytes | None]] = []
        while consumer.position([confluent_kafka.TopicPartition(topic, 0)])[0].offset < end:
            messages = consumer.consume(1000, timeout=5)
            assert messages, f"nothing after {len(seen)} messages"
            for message in messages:
                assert message.error() is None, message.error()
                seen.append((message.offset(), message.value()))
        return seen
    finally:
        consumer.close()


def open_logs(folder: Path) -> LogManager:
    logs = LogManager(folder, default_config=LogConfig(), clock_ms=lambda: NOW_MS, flush_pool=ManualPool())
    logs.open()
    return logs


def stable_values(log: PartitionLog) -> list[tuple[int, bytes | None]]:
    aborted = {
        (each.producer_id, offset)
        for each in log.reader.aborted_transactions(0, log.end_offset)
        for offset in range(each.first_offset, each.last_offset)
    }
    return [
        (record.offset, record.value)
        for batch in log.reader.replay(0, log.end_offset)
        if not batch.is_control
        for record in batch.records()
        if not (batch.is_transactional and (batch.producer_id, record.offset) in aborted)
    ]


@pytest.mark.parametrize("end", ["in order", "killed"])
def test_a_folder_goes_from_apache_kafka_to_us_and_back(kafka: apache.ApacheKafka, end: str) -> None:
    create_topic(kafka, "orders", segment_bytes=str(1 << 20), index_interval_bytes="512")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(kafka, "orders", 0, 2_000, **{"compression.type": codec, "enable.idempotence": codec != "none"})
        if codec == "none":  # the next leader epoch begins within a segment
            kafka.stop()
            kafka.start()
    transact(kafka, "orders", b"aborted", commit=False)
    transact(kafka, "orders", b"committed", commit=True)
    theirs = consume(kafka, "orders", 10_004)
    if end == "killed":
        kafka.kill()
    else:
        kafka.stop()

    logs = open_logs(kafka.folder)
    assert logs.properties.cluster_id == apache.CLUSTER_ID
    assert logs.was_clean == (end == "in order")
    log = logs.get("orders", 0)
    assert log is not None
    assert log.topic_id is not None
    assert log.end_offset == 10_004
    assert len(log.segments) > 1
    log.advance_high_watermark(log.end_offset)
    assert log.last_stable_offset == 10_004
    assert stable_values(log) == theirs
    assert len(log.reader.aborted_transactions(0, 10_004)) == 1
    assert [entry.start_offset for entry in log.epochs.entries] == [0, 2_000]
    for number in (0, 1, 777, 1_999):
        listed = log.reader.list_offset(NOW_MS + number, log.end_offset)
        assert (listed.offset, listed.timestamp_ms) == (number, NOW_MS + number)
    assert len(log.producers()) >= 5

    batch = build_batch([NewRecord(b"key", b"from us", NOW_MS)], compression=Compression.LZ4)
    assert log.append_as_leader(memoryview(batch), log.latest_epoch, NOW_MS).base_offset == 10_004
    logs.close()

    kafka.start()
    assert consume(kafka, "orders", 10_005) == [*theirs, (10_004, b"from us")]
    produce(kafka, "orders", 0, 10)
    assert consume(kafka, "orders", 10_015)[-1][0] == 10_014


def test_a_compacted_topic_of_apache_kafka_is_recovered_without_loss(kafka: apache.ApacheKafka) -> None:
    create_topic(
        kafka,
        "table",
        cleanup_policy="compact",
        segment_bytes=str(1 << 20),
        min_cleanable_dirty_ratio="0.01",
        max_compaction_lag_ms="1",
    )
    kafka.stop()
    kafka.settings = {"log.cleaner.backoff.ms": "100"}
    kafka.start()
    produce(kafka, "table", 0, 20_000)
    folder = kafka.folder / "table-0"
    deadline = time.monotonic() + 60
    while (
        not (kafka.folder / "cleaner-offset-checkpoint").exists()
        or "table 0" not in (kafka.folder / "cleaner-offset-checkpoint").read_text()
    ):
        assert time.monotonic() < deadline, "Apache Kafka did not compact"
        produce(kafka, "table", 0, 50)
    theirs = dict(consume(kafka, "table", confluent_end(kafka, "table")))
    kafka.kill()
    logs = open_logs(kafka.folder)
    log = logs.get("table", 0)
    assert log is not None
    assert log.directory == folder
    ours = dict(stable_values(log))
    # Kafka may have compacted on after it was read; nothing that is the latest of its key may be missing
    latest = {offset for offset in theirs if offset >= log.end_offset - 50}
    assert latest
    assert {offset: ours.get(offset) for offset in latest} == {offset: theirs[offset] for offset in latest}
    assert set(ours) <= set(theirs)
    logs.close()


def confluent_end(kafka: apache.ApacheKafka, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.address, "group.id": "end"})
    try:
        return int(consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=10)[1])
    finally:
        consumer.close()


def test_apache_kafka_goes_on_with_an_idempotent_producer_of_ours(kafka: apache.ApacheKafka) -> None:
    """Our snapshots tell five batches of a producer, one entry each: for Apache Kafka the last of them is what counts."""
    now_ms = int(time.time() * 1000)  # Apache Kafka forgets producers by the timestamps of their records
    create_topic(kafka, "orders")
    kafka.stop()
    logs = open_logs(kafka.folder)
    log = logs.get("orders", 0)
    assert log is not None

    def batch(sequence: int) -> bytes:
        records = [NewRecord(b"key", b"%d" % sequence, now_ms)]
        return bytes(build_batch(records, producer_id=4711, producer_epoch=0, base_sequence=sequence))

    for sequence in range(4):
        log.append_as_leader(memoryview(bytearray(batch(sequence))), log.latest_epoch, now_ms)
    logs.close()

    kafka.start()
    host, port = kafka.address.split(":")

    def produce_again(sequence: int) -> tuple[int, int]:
        data = [{"name": "orders", "partition_data": [{"index": 0, "records": batch(sequence)}]}]
        answer = client.call(0, 9, {"acks": -1, "timeout_ms": 5_000, "topic_data": data})
        found = answer.responses[0].partition_responses[0]
        return found.error_code, found.base_offset

    with WireClient(host, int(port)) as client:
        assert produce_again(3) == (0, 3)  # a duplicate
        assert produce_again(5) == (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert produce_again(4) == (0, 4)
