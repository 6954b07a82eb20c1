"""Codecs: what other implementations write and read, and what a hostile sender may try."""

from __future__ import annotations

import gzip
import tracemalloc

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.errors import CorruptMessage, UnsupportedCompressionType
from streamactors.broker.records.compression import Compression, compress, decompress
from tests.own_process import own_process

CODECS = [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD]
TEXT = b'{"id": 12345, "name": "a name that comes again and again"}' * 5_000


@given(st.binary(max_size=5_000), st.integers(1, 50), st.sampled_from(CODECS))
@settings(max_examples=60, deadline=None)
def test_round_trip(piece: bytes, times: int, codec: Compression) -> None:
    data = piece * times
    assert decompress(codec, memoryview(compress(codec, data))) == data


@pytest.mark.parametrize("codec", CODECS)
def test_one_byte_below_the_bound_is_refused_and_the_bound_itself_is_not(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(CorruptMessage, match=f"more than the {len(TEXT) - 1} bytes"):
        decompress(codec, packed, len(TEXT) - 1)


@own_process
def test_a_bomb_costs_no_more_memory_than_the_bound() -> None:
    for codec in CODECS:
        bomb = compress(codec, bytes(64 << 20))
        tracemalloc.start()
        try:
            with pytest.raises(CorruptMessage):
                decompress(codec, bomb, 1 << 20)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 4 << 20, codec


@pytest.mark.parametrize("codec", CODECS)
def test_damaged_and_truncated_data_is_an_error(codec: Compression) -> None:
    packed = compress(codec, TEXT)
    for damaged in (b"", packed[:1], packed[: len(packed) // 2], packed[:-1], b"\xff" * 40):
        try:
            result = decompress(codec, damaged)
        except CorruptMessage:
            continue
        assert result != TEXT


def test_a_codec_that_does_not_exist_is_refused_by_number() -> None:
    with pytest.raises(UnsupportedCompressionType, match="codec 5 does not exist"):
        decompress(5, b"x")


def test_snappy_comes_bare_from_librdkafka_and_in_frames_from_java() -> None:
    assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT
    framed = compress(Compression.SNAPPY, TEXT)
    assert framed.startswith(b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
    assert decompress(Compression.SNAPPY, framed) == TEXT


def test_a_snappy_length_that_lies_allocates_nothing() -> None:
    claims_4_gb = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(CorruptMessage, match="more than"):
        decompress(Compression.SNAPPY, claims_4_gb)
    claims_100_mb = b"\x80\x80\x80\x32" + b"x" * 20
    with pytest.raises(CorruptMessage, match="cannot be"):
        decompress(Compression.SNAPPY, claims_100_mb)


def test_many_empty_gzip_members_are_read_in_one_pass() -> None:
    members = gzip.compress(b"ab") + gzip.compress(b"") * 5_000 + gzip.compress(b"cd")
    assert decompress(Compression.GZIP, members) == b"abcd"


def test_lz4_frames_have_independent_blocks_since_java_reads_no_others() -> None:
    frame = compress(Compression.LZ4, TEXT)
    assert frame[:4] == b"\x04\x22\x4d\x18"
    assert frame[4] & 0x20, "the bit for independent blocks"
    assert bytes(cramjam.lz4.decompress(frame)) == TEXT
    incompressible = bytes(range(256)) * 300
    assert bytes(cramjam.lz4.decompress(compress(Compression.LZ4, incompressible))) == incompressible
