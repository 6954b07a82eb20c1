"""Batches against an independent implementation of the format (kafka-python's), and against damage."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.header import (
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    assign_offset,
    assign_timestamps,
    last_sequence,
)
from streamactors.broker.records.record import NewRecord, Record

OFFSETS = st.integers(0, 2**62)
TIMESTAMPS = st.integers(0, 2**45)
BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=10), BYTES), max_size=3).map(tuple)
RECORDS = st.lists(st.builds(NewRecord, BYTES, BYTES, TIMESTAMPS, HEADERS), min_size=1, max_size=20)


def as_theirs(records: list[NewRecord]) -> list[tuple[object, ...]]:
    return [(r.timestamp, r.key, r.value, list(r.headers)) for r in records]


@given(RECORDS, OFFSETS, st.integers(-1, 2**31 - 1), st.sampled_from([Compression.NONE, Compression.GZIP]))
@settings(max_examples=60, deadline=None)
def test_another_implementation_reads_what_we_build(
    records: list[NewRecord], base_offset: int, leader_epoch: int, codec: Compression
) -> None:
    ours = build_batch(
        records,
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        compression=codec,
        producer_id=7,
        producer_epoch=3,
        base_sequence=11,
        transactional=True,
    )
    theirs = DefaultRecordBatch(bytes(ours))
    assert theirs.validate_crc()
    assert (theirs.base_offset, theirs.last_offset, theirs.leader_epoch) == (
        base_offset,
        base_offset + len(records) - 1,
        leader_epoch,
    )
    assert theirs.is_transactional
    assert not theirs.is_control_batch
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (7, 3, 11)
    assert theirs.max_timestamp == max(r.timestamp for r in records)
    assert [(r.timestamp, r.key, r.value, list(r.headers)) for r in theirs] == as_theirs(records)


@given(RECORDS)
@settings(max_examples=60, deadline=None)
def test_we_read_what_another_implementation_builds(records: list[NewRecord]) -> None:
    builder = DefaultRecordBatchBuilder(2, Compression.GZIP, False, 9, 1, 0, 1 << 20)
    for index, record in enumerate(records):
        builder.append(index, record.timestamp, record.key, record.value, list(record.headers))
    batch = RecordBatch(bytes(builder.build()))
    batch.ensure_valid()
    assert list(batch.records()) == [
        Record(index, r.timestamp, r.key, r.value, r.headers) for index, r in enumerate(records)
    ]


@given(RECORDS, OFFSETS, st.sampled_from(Compression))
@settings(max_examples=60, deadline=None)
def test_a_built_batch_is_read_back_in_every_codec(
    records: list[NewRecord], base_offset: int, codec: Compression
) -> None:
    batch = RecordBatch(build_batch(records, base_offset=base_offset, compression=codec))
    batch.ensure_valid()
    assert batch.compression is codec
    assert batch.next_offset == base_offset + len(records)
    assert list(batch.records()) == [
        Record(base_offset + index, r.timestamp, r.key, r.value, r.headers) for index, r in enumerate(records)
    ]


def test_offset_and_epoch_are_assigned_in_place_and_outside_the_crc() -> None:
    raw = build_batch([NewRecord(b"k", b"v", 5)])
    before = bytes(raw)
    assign_offset(memoryview(raw), 2**40, 17)
    batch = RecordBatch(raw)
    batch.ensure_valid()
    assert (batch.base_offset, batch.leader_epoch) == (2**40, 17)
    assert raw[16:] == before[16:]


def test_log_append_time_replaces_every_record_timestamp() -> None:
    raw = build_batch([NewRecord(None, b"a", 5), NewRecord(None, b"b", 9)])
    assign_timestamps(memoryview(raw), LOG_APPEND_TIME, 1_000)
    batch = RecordBatch(raw)
    batch.ensure_valid()
    assert [record.timestamp for record in batch.records()] == [1_000, 1_000]
    theirs = DefaultRecordBatch(bytes(raw))
    assert theirs.validate_crc()
    assert [record.timestamp for record in theirs] == [1_000, 1_000]


def test_sequences_wrap_after_the_greatest_int() -> None:
    assert last_sequence(MAX_SEQUENCE - 1, 1) == MAX_SEQUENCE
    assert last_sequence(MAX_SEQUENCE - 1, 2) == 0
    assert last_sequence(MAX_SEQUENCE, 5) == 4
    assert last_sequence(-1, 5) == -1


def test_a_walk_ends_at_a_cut_and_refuses_an_impossible_size() -> None:
    one = bytes(build_batch([NewRecord(b"k", b"v", 5)]))
    two = one + bytes(build_batch([NewRecord(b"k", b"w", 5)], base_offset=1))
    for cut in range(len(two) + 1):
        whole = [batch.base_offset for batch in iter_batches(two[:cut])]
        assert whole == [0, 1][: cut // len(one)]
    broken = bytearray(two)
    broken[8:12] = (48).to_bytes(4, "big")
    with pytest.raises(CorruptMessage, match="48 bytes"):
        list(iter_batches(broken))


def test_every_flipped_bit_that_the_crc_covers_is_noticed() -> None:
    raw = build_batch([NewRecord(b"key", b"value", 5)])
    for bit in range(8 * 8, 8 * len(raw)):
        if 12 <= bit // 8 < 16:  # the leader epoch: the broker's own, outside the CRC
            continue
        damaged = bytearray(raw)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptMessage):
            RecordBatch(damaged).ensure_valid()


def test_records_that_do_not_match_the_header_are_refused() -> None:
    raw = build_batch([NewRecord(b"k", b"v", 5), NewRecord(b"k", b"v", 5)])
    for count in (1, 3, 2**31 - 1):
        lying = bytearray(raw)
        lying[57:61] = count.to_bytes(4, "big")
        with pytest.raises(CorruptMessage):
            list(RecordBatch(lying).records())


@given(st.binary(max_size=200), st.integers(0, 2**31 - 1))
@settings(max_examples=200, deadline=None)
def test_random_records_are_an_error_or_records_but_nothing_else(payload: bytes, count: int) -> None:
    raw = build_batch([NewRecord(None, None, 0)])[:HEADER_SIZE] + payload
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    raw[57:61] = count.to_bytes(4, "big")
    try:
        list(RecordBatch(raw).records())
    except CorruptMessage:
        pass


def test_a_header_count_that_lies_is_refused_before_anything_is_allocated() -> None:
    body = bytes([0, 0, 0, 1, 1]) + b"\xfe\xff\xff\xff\x0f"  # null key, null value, 2^31 - 1 headers
    raw = build_batch([NewRecord(None, None, 0)])[:HEADER_SIZE] + bytes([2 * len(body)]) + body
    raw[8:12] = (len(raw) - 12).to_bytes(4, "big")
    with pytest.raises(CorruptMessage, match="2147483647 headers"):
        list(RecordBatch(raw).records())
