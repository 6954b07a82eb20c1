"""What a produced batch is refused for, with which error code and which record."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import (
    BrokerError,
    CorruptMessage,
    ErrorCode,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)
from streamactors.broker.records.builder import BatchBuilder, build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.control import build_marker
from streamactors.broker.records.header import HEADER_SIZE, LOG_APPEND_TIME, seal
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import (
    AppendOrigin,
    TimestampBounds,
    check_create_time,
    check_header,
    check_records,
)

LIMIT = 1_048_588


def patched(raw: bytearray, at: int, value: int, size: int) -> memoryview:
    raw = bytearray(raw)
    raw[at : at + size] = value.to_bytes(size, "big", signed=True)
    seal(raw)
    return memoryview(raw)


def good(**options: object) -> bytearray:
    return build_batch([NewRecord(b"a", b"1", 10), NewRecord(b"b", b"2", 20)], **options)  # type: ignore[arg-type]


def check(raw: bytearray | memoryview, origin: AppendOrigin = AppendOrigin.CLIENT) -> None:
    check_header(memoryview(raw), LIMIT, origin)


@pytest.mark.parametrize("codec", Compression)
def test_a_valid_batch_passes(codec: Compression) -> None:
    check(good(compression=codec, producer_id=4, producer_epoch=0, base_sequence=0, transactional=True))


@pytest.mark.parametrize(
    ("raw", "error", "text"),
    [
        (bytearray(), InvalidRecord, "0 bytes hold none"),
        (good()[: HEADER_SIZE - 1], InvalidRecord, "60 bytes hold none"),
        (good()[:-1], CorruptMessage, "came with"),
        (good() + good(), InvalidRecord, "only one record batch"),
        (patched(good(), 8, -5, 4), CorruptMessage, "came with"),
        (patched(good(), 16, 1, 1), InvalidRecord, "format version 1"),
        (patched(good(), 16, 3, 1), CorruptMessage, "format version 3"),
        (patched(good(), 57, 3, 4), InvalidRecord, "3 records"),
        (patched(good(), 57, 0, 4), InvalidRecord, "0 records"),
        (patched(good(), 57, -1, 4), InvalidRecord, "-1 records"),
        (patched(good(), 23, -1, 4), InvalidRecord, "room for 0"),
        (patched(good(), 23, 2**31 - 1, 4), InvalidRecord, "room for 2147483648"),
        (patched(good(), 21, 5, 2), UnsupportedCompressionType, "codec 5"),
        (patched(good(), 0, 3, 8), InvalidRecord, "must be 0, it is 3"),
        (good(producer_id=1, producer_epoch=0, base_sequence=-1), InvalidRecord, "sequence number -1"),
        (good(transactional=True), InvalidRecord, "without a producer id"),
        (
            build_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=0),
            InvalidRecord,
            "control records",
        ),
    ],
)
def test_a_bad_header_is_refused(raw: bytearray, error: type[BrokerError], text: str) -> None:
    with pytest.raises(error, match=text):
        check(raw)


def test_a_wrong_crc_is_corrupt_message() -> None:
    raw = good()
    raw[-1] ^= 1
    with pytest.raises(CorruptMessage) as caught:
        check(raw)
    assert caught.value.code == ErrorCode.CORRUPT_MESSAGE


def test_size_is_checked_as_the_batch_arrives() -> None:
    raw = good()
    check_header(memoryview(raw), len(raw), AppendOrigin.CLIENT)
    with pytest.raises(MessageTooLarge, match=f"max.message.bytes is {len(raw) - 1}"):
        check_header(memoryview(raw), len(raw) - 1, AppendOrigin.CLIENT)


def test_a_coordinator_may_write_control_batches() -> None:
    check(build_marker(1, 0, committed=True, coordinator_epoch=0, timestamp_ms=0), AppendOrigin.COORDINATOR)


@pytest.mark.parametrize("codec", Compression)
def test_compacted_topics_need_a_key_in_every_record(codec: Compression) -> None:
    records = [NewRecord(b"a", b"1", 5), NewRecord(None, b"2", 5), NewRecord(b"", b"3", 5), NewRecord(None, b"4", 5)]
    raw = memoryview(build_batch(records, compression=codec))
    with pytest.raises(InvalidRecord) as caught:
        check_records(raw, keys_required=True, bounds=None)
    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert check_records(raw, keys_required=False, bounds=None) == 5


def test_timestamps_out_of_bounds_name_their_records() -> None:
    raw = memoryview(build_batch([NewRecord(None, b"", t) for t in (100, 201, -1, 99, 200)]))
    with pytest.raises(InvalidTimestamp) as caught:
        check_create_time(raw, 100, 201, TimestampBounds(100, 200))
    assert [error.batch_index for error in caught.value.record_errors] == [1, 3]
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    check_create_time(raw, 100, 201, TimestampBounds(99, 201))


def test_a_producer_must_not_claim_log_append_time() -> None:
    with pytest.raises(InvalidTimestamp, match="LogAppendTime") as caught:
        check(patched(good(), 21, LOG_APPEND_TIME, 2))
    assert [error.batch_index for error in caught.value.record_errors] == [0, 1]


def test_a_batch_without_timestamps_is_in_every_bound() -> None:
    raw = memoryview(build_batch([NewRecord(None, b"x")]))
    check_create_time(raw, -1, -1, TimestampBounds(50, 100))


def test_the_walk_finds_offsets_that_do_not_count_up() -> None:
    builder = BatchBuilder()
    for _ in range(3):
        builder.append(b"k", b"v", 1)
        builder.count += 1  # leaves a hole in the offset deltas
    builder.count = 3
    with pytest.raises(InvalidRecord, match="offset delta 2, it must be 1"):
        check_records(memoryview(builder.build()), keys_required=False, bounds=None)


def test_the_record_check_refuses_data_that_does_not_decompress() -> None:
    raw = good(compression=Compression.ZSTD)
    raw[-5:] = b"\xff" * 5
    seal(raw)
    check(raw)
    with pytest.raises(InvalidRecord, match="malformed"):
        check_records(memoryview(raw), keys_required=False, bounds=None)


def test_a_header_with_contradictory_timestamps_is_not_trusted() -> None:
    bounds = TimestampBounds(0, 1_000)
    assert check_create_time(memoryview(good()), 10, 20, bounds) == 20
    assert check_create_time(memoryview(good()), 10, 900, bounds) == 900  # believed: the records are not looked at
    assert check_create_time(memoryview(good()), 10, 5, bounds) == 20
    assert check_create_time(memoryview(good()), 10, 1_001, bounds) == 20


def test_so_many_bad_records_are_named_and_no_more() -> None:
    # a megabyte of compressed batch can hold a million records without a key: the answer was sixty megabytes
    records = [NewRecord(None, b"", 10)] * 5_000
    with pytest.raises(InvalidRecord, match="1000 before the others were looked at") as caught:
        check_records(memoryview(build_batch(records)), keys_required=True, bounds=None)
    assert [error.batch_index for error in caught.value.record_errors] == list(range(1_000))
    with pytest.raises(InvalidTimestamp) as late:
        check_records(memoryview(build_batch(records)), keys_required=False, bounds=TimestampBounds(11, 20))
    assert len(late.value.record_errors) == 1_000
