"""What an append refuses, corrects and stamps: epochs, timestamps, headers that lie, sizes, and when a segment is rolled."""

from __future__ import annotations

import dataclasses

import pytest

from streamactors.broker.errors import (
    CorruptMessage,
    FencedLeaderEpoch,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordListTooLarge,
    StorageError,
)
from streamactors.broker.log.partition.log_follow import UnexpectedAppendOffset
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.header import seal
from streamactors.broker.records.record import NewRecord
from tests.broker.log.appending import append, values
from tests.broker.log.conftest import NOW_MS, MakeLog


def test_offset_and_epoch_are_written_into_the_producers_buffer_and_into_the_log(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", epoch=3)
    raw = build_batch([NewRecord(None, b"b", NOW_MS)])
    log.append_as_leader(memoryview(raw), 4, NOW_MS)
    for batch in (RecordBatch(raw), list(log.reader.replay(0, 2))[1]):
        batch.ensure_valid()
        assert (batch.base_offset, batch.leader_epoch) == (1, 4)


def test_an_older_leader_epoch_is_fenced_before_anything_is_written(make_log: MakeLog) -> None:
    log = make_log()
    append(log, b"a", epoch=5)
    with pytest.raises(FencedLeaderEpoch, match="leader epoch 4 is older than the current epoch 5"):
        append(log, b"b", epoch=4)
    assert log.end_offset == 1


def test_log_append_time_stamps_every_record(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_type="LogAppendTime")
    raw = build_batch([NewRecord(None, b"a", 5), NewRecord(None, b"b", 9)], compression=Compression.ZSTD)
    result = log.append_as_leader(memoryview(raw), 0, NOW_MS)
    assert result.log_append_time_ms == NOW_MS
    [batch] = log.reader.replay(0, 2)
    batch.ensure_valid()
    assert [record.timestamp for record in batch.records()] == [NOW_MS, NOW_MS]
    assert log.append_as_leader(memoryview(build_batch([NewRecord(None, b"c", 5)])), 0, NOW_MS + 1).log_append_time_ms


def test_create_time_has_bounds(make_log: MakeLog) -> None:
    log = make_log(message_timestamp_before_max_ms=1000)
    append(log, b"old enough", timestamp=NOW_MS - 1000)
    append(log, b"young enough", timestamp=NOW_MS + 3_600_000)
    append(log, b"none at all", timestamp=-1)
    for timestamp in (NOW_MS - 1001, NOW_MS + 3_600_001):
        with pytest.raises(InvalidTimestamp, match="invalid timestamp") as caught:
            append(log, b"bad", timestamp=timestamp)
        assert [error.batch_index for error in caught.value.record_errors] == [0]
    assert log.end_offset == 3


def test_header_validation_believes_the_header_and_full_validation_does_not(make_log: MakeLog) -> None:
    lying = build_batch([NewRecord(None, b"a", NOW_MS), NewRecord(None, b"b", NOW_MS)])
    lying[-1] = 0x7F  # the last record's header count
    seal(lying)
    trusting, careful = make_log(topic="trusting"), make_log(topic="careful", record_validation="full")
    trusting.append_as_leader(memoryview(bytearray(lying)), 0, NOW_MS)
    with pytest.raises(InvalidRecord, match="malformed"):
        careful.append_as_leader(memoryview(bytearray(lying)), 0, NOW_MS)
    assert careful.end_offset == 0


def test_full_validation_corrects_a_max_timestamp_that_lies(make_log: MakeLog) -> None:
    log = make_log(record_validation="full")
    raw = build_batch([NewRecord(None, b"a", NOW_MS - 5)])
    raw[35:43] = (NOW_MS + 1000).to_bytes(8, "big")
    seal(raw)
    log.append_as_leader(memoryview(raw), 0, NOW_MS)
    [batch] = log.reader.replay(0, 1)
    batch.ensure_valid()
    assert batch.max_timestamp == NOW_MS - 5


def test_compacted_topics_are_always_walked(make_log: MakeLog) -> None:
    log = make_log(cleanup_policy=("compact",))
    with pytest.raises(InvalidRecord) as caught:
        log.append_as_leader(memoryview(build_batch([NewRecord(None, b"a", NOW_MS)])), 0, NOW_MS)
    assert [error.batch_index for error in caught.value.record_errors] == [0]


def test_a_batch_larger_than_a_segment_is_refused(make_log: MakeLog) -> None:
    log = make_log(segment_bytes=200)
    with pytest.raises(RecordListTooLarge, match=r"segment.bytes is 200"):
        append(log, b"x" * 300)


def test_segments_roll_by_age_of_their_first_batch(make_log: MakeLog) -> None:
    log = make_log(segment_ms=1000)
    append(log, b"a", timestamp=NOW_MS - 5000)
    append(log, b"b", timestamp=NOW_MS - 4000)
    assert len(log.segments) == 1
    append(log, b"c", timestamp=NOW_MS - 3999)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(make_log: MakeLog) -> None:
    log = make_log(segment_index_bytes=16, index_interval_bytes=0)
    for _ in range(9):
        append(log, b"v")
    assert len(log.segments) > 2
    assert values(log, 0, up_to=9) == [b"v"] * (log.segments[1].base_offset)


def test_a_closed_log_refuses_appends_by_name(make_log: MakeLog) -> None:
    log = make_log()
    log.close()
    with pytest.raises(StorageError, match="orders-0: the log is closed"):
        append(log, b"a")


def test_a_follower_keeps_offsets_and_epochs(make_log: MakeLog) -> None:
    leader, follower = make_log(topic="leader"), make_log(topic="follower")
    for number in range(5):
        append(leader, b"v%d" % number, epoch=number // 2)
    with leader.read(0, 1 << 20, 5) as piece:
        fetched = piece.read()
    result = follower.append_as_follower(memoryview(fetched), NOW_MS)
    assert (result.base_offset, result.last_offset) == (0, 4)
    assert values(follower, 0, up_to=5) == values(leader, 0)
    assert follower.epochs.entries == leader.epochs.entries
    with pytest.raises(UnexpectedAppendOffset, match="the log ends at 5"):
        follower.append_as_follower(memoryview(fetched), NOW_MS)


def test_an_empty_log_of_a_follower_begins_with_a_batch_that_its_first_segment_cannot_hold(make_log: MakeLog) -> None:
    follower = make_log(topic="follower")
    batch = bytearray(build_batch([NewRecord(None, b"v", NOW_MS)]))
    batch[:8] = (1 << 32).to_bytes(8, "big")
    follower.append_as_follower(memoryview(batch), NOW_MS)
    assert [each.base_offset for each in follower.segments] == [1 << 32]
    assert (follower.log_start_offset, follower.end_offset) == (1 << 32, (1 << 32) + 1)
    assert values(follower, 1 << 32, up_to=(1 << 32) + 1) == [b"v"]


def test_a_follower_takes_no_damaged_and_no_partial_batch(make_log: MakeLog) -> None:
    leader, follower = make_log(topic="leader"), make_log(topic="follower")
    for number in range(3):
        append(leader, b"v%d" % number)
    with leader.read(0, 1 << 20, 3) as piece:
        fetched = bytearray(piece.read())
    follower.append_as_follower(memoryview(fetched)[:-5], NOW_MS)
    assert follower.end_offset == 2
    rest = fetched[len(fetched) // 3 * 2 :]
    with pytest.raises(CorruptMessage, match="without a complete batch"):
        follower.append_as_follower(memoryview(rest)[:-1], NOW_MS)
    rest[-1] ^= 1
    with pytest.raises(CorruptMessage, match="CRC"):
        follower.append_as_follower(memoryview(rest), NOW_MS)
    assert follower.end_offset == 2


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
def test_batches_are_stored_in_the_topics_codec(make_log: MakeLog, timestamps: str) -> None:
    log = make_log(compression_type="lz4", message_timestamp_type=timestamps)
    for codec in Compression:
        append(log, b"x" * 1_000, b"y", compression=codec)
    stored = list(log.reader.replay(0, log.end_offset))
    for batch in stored:
        batch.ensure_valid()
    assert [batch.compression for batch in stored] == [Compression.LZ4] * 5
    assert [batch.is_log_append_time for batch in stored] == [timestamps == "LogAppendTime"] * 5
    assert values(log, 0) == [b"x" * 1_000, b"y"] * 5


def test_a_changed_codec_of_a_topic_applies_to_later_batches(make_log: MakeLog) -> None:
    log = make_log()
    for wanted in ("producer", "gzip", "uncompressed", "producer"):
        log.update_config(dataclasses.replace(log.config, compression_type=wanted))
        append(log, b"x" * 1_000, compression=Compression.ZSTD)
    codecs = [batch.compression for batch in log.reader.replay(0, log.end_offset)]
    assert codecs == [Compression.ZSTD, Compression.GZIP, Compression.NONE, Compression.ZSTD]


def test_a_batch_that_its_topics_codec_makes_too_large_is_refused_and_not_written(make_log: MakeLog) -> None:
    log = make_log(compression_type="uncompressed", max_message_bytes=1_000)
    with pytest.raises(MessageTooLarge):
        append(log, b"x" * 5_000, compression=Compression.GZIP)
    assert log.end_offset == 0
    assert append(log, b"x") == 0


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_a_batch_that_decompresses_to_more_than_the_topic_takes_is_refused(
    make_log: MakeLog, codec: Compression
) -> None:
    # the limit and the error are Apache Kafka's; a batch without compression has no such limit
    log = make_log(max_decompressed_message_bytes=1_000)

    def produce(size: int, codec: Compression) -> None:
        raw = build_batch([NewRecord(None, b"x" * size, NOW_MS)], compression=codec)
        log.append_as_leader(memoryview(raw), 0, NOW_MS)

    produce(900, codec)
    with pytest.raises(InvalidRecord, match=r"more than .*1000 .*max\.decompressed\.message\.bytes is 1000"):
        produce(5_000, codec)
    produce(5_000, Compression.NONE)
    assert log.end_offset == 2
