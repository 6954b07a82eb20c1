"""A batch in another codec: the records and what the header says of them stay, the codec is the topic's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import CorruptMessage, MessageTooLarge
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.compression import Compression
from streamactors.broker.records.header import CODEC_MASK, HEADER_SIZE, seal
from streamactors.broker.records.recompression import Recompression
from streamactors.broker.records.record import NewRecord

NAMES = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
NO_BOUND = 1 << 30


def wanted(compression_type: str, gzip_level: int = -1, zstd_level: int = 3) -> Recompression:
    recompression = Recompression.of(compression_type, gzip_level=gzip_level, zstd_level=zstd_level)
    assert recompression is not None
    return recompression


def produced(values: list[bytes], codec: Compression) -> RecordBatch:
    records = [NewRecord(b"key", value, 1_000 + at, ((f"h{at}", None),)) for at, value in enumerate(values)]
    return RecordBatch(
        build_batch(records, compression=codec, producer_id=7, producer_epoch=2, base_sequence=40, transactional=True)
    )


def apply(recompression: Recompression, batch: RecordBatch, bound: int = NO_BOUND) -> RecordBatch:
    records, attributes = recompression.apply(memoryview(batch.buffer), batch.attributes, bound)
    after = RecordBatch(records)
    assert after.attributes == attributes
    return after


def test_compression_type_producer_keeps_the_producers_codec() -> None:
    assert Recompression.of("producer", gzip_level=9, zstd_level=3) is None


@given(
    st.lists(st.binary(max_size=300), min_size=1, max_size=20),
    st.sampled_from(Compression),
    st.sampled_from(sorted(NAMES)),
)
@settings(max_examples=80, deadline=None)
def test_records_and_header_stay_and_the_codec_is_the_topics(
    values: list[bytes], codec: Compression, name: str
) -> None:
    before = produced(values, codec)
    after = apply(wanted(name), before)
    after.ensure_valid()
    assert after.attributes & CODEC_MASK == NAMES[name]
    assert list(after.records()) == list(before.records())
    for field in (
        "base_offset", "leader_epoch", "last_offset", "base_timestamp", "max_timestamp", "producer_id", "producer_epoch",
        "base_sequence", "count", "is_transactional",
    ):  # fmt: skip
        assert getattr(after, field) == getattr(before, field), field


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_batch_that_has_the_codec_is_not_touched_whatever_its_level(name: str) -> None:
    buffer = memoryview(produced([b"x" * 500], NAMES[name]).buffer)
    records, _ = wanted(name, gzip_level=9, zstd_level=19).apply(buffer, NAMES[name], NO_BOUND)
    assert records is buffer


@pytest.mark.parametrize(("name", "low", "high"), [("gzip", 1, 9), ("zstd", -100, 19)])
def test_levels_are_those_of_the_topic(name: str, low: int, high: int) -> None:
    batch = produced(
        [bytes(at * at % 251 for at in range(start, start + 4_000)) for start in range(20)], Compression.NONE
    )
    fast, small = (apply(wanted(name, gzip_level=level, zstd_level=level), batch) for level in (low, high))
    assert small.size < fast.size < batch.size


def test_a_batch_that_becomes_too_large_is_refused() -> None:
    batch = produced([b"x" * 10_000], Compression.ZSTD)
    with pytest.raises(MessageTooLarge, match=r"batch of \d+ bytes, \d{5} as none; max\.message\.bytes is 1000"):
        apply(wanted("uncompressed"), batch, bound=1_000)


def test_data_that_does_not_decompress_is_corrupt() -> None:
    batch = produced([b"x" * 500], Compression.ZSTD)
    raw = bytearray(batch.buffer)
    raw[HEADER_SIZE : HEADER_SIZE + 4] = b"\0\0\0\0"
    seal(raw)
    with pytest.raises(CorruptMessage, match="zstd data is damaged"):
        apply(wanted("gzip"), RecordBatch(raw))
