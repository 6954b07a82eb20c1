"""The four codecs of record batches, with decompression into bounded memory.

Owner: pure functions. Formats as Kafka's clients write and read them: gzip; snappy in xerial's framing (the Java
client) or bare (librdkafka); lz4 frames with independent blocks, the only ones that the Java reader supports; zstd.
The output buffer has a bounded size, whatever the input claims. Source: Kafka's message format, KIP-57
(lz4), KIP-110 (zstd), the xerial snappy-java stream format.
"""

from __future__ import annotations

import struct
import zlib
from enum import IntEnum
from typing import Any, Final

import cramjam

from streamactors.broker.errors import CorruptMessage, UnsupportedCompressionType
from streamactors.broker.records.header import Buffer

MAX_BATCH_BYTES: Final = 128 * 1024 * 1024
"""Upper limit of a decompressed batch. Producers limit a batch before compression, usually to 16 KiB to 1 MiB."""

_FIRST_GUESS: Final = 64 * 1024
_LZ4_BLOCK: Final = 64 * 1024
# magic, version 1 with independent blocks and no checksums, blocks of 64 KiB, and the header's check byte
_LZ4_FRAME_HEADER: Final = bytes.fromhex("04224d18604082")
_LZ4_STORED: Final = 0x80000000
_LZ4_END: Final = b"\0\0\0\0"
_XERIAL_MAGIC: Final = b"\x82SNAPPY\x00"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK: Final = 32 * 1024
_U32_LE: Final = struct.Struct("<I")
_I32: Final = struct.Struct(">i")


class Compression(IntEnum):
    """The codec of a batch: the lowest three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


def compress(codec: Compression, data: Buffer, level: int | None = None) -> bytes:
    """Return the data compressed, at the codec's default level if none is given; snappy and lz4 have no levels here."""
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        compressor = zlib.compressobj(6 if level is None else level, zlib.DEFLATED, 31)
        return compressor.compress(data) + compressor.flush()
    if codec == Compression.SNAPPY:
        return _compress_snappy(memoryview(data))
    if codec == Compression.LZ4:
        return _compress_lz4(memoryview(data))
    return bytes(cramjam.zstd.compress(data, level=3 if level is None else level))


def decompress(codec: int, data: Buffer, max_bytes: int = MAX_BATCH_BYTES) -> bytes:
    """Return the data decompressed.

    Raises CorruptMessage if the data is damaged or exceeds max_bytes (no more is ever allocated), and
    UnsupportedCompressionType for an unknown codec.
    """
    if codec == Compression.NONE:
        return bytes(data)
    if codec == Compression.GZIP:
        return _decompress_by_guess("gzip", cramjam.gzip.decompress_into, data, max_bytes)
    if codec == Compression.SNAPPY:
        return _decompress_snappy(memoryview(data), max_bytes)
    if codec == Compression.LZ4:
        return _decompress_by_guess("lz4", cramjam.lz4.decompress_into, data, max_bytes)
    if codec == Compression.ZSTD:
        return _decompress_by_guess("zstd", cramjam.zstd.decompress_into, data, max_bytes)
    raise UnsupportedCompressionType(f"compression codec {codec} does not exist; gzip 1, snappy 2, lz4 3, zstd 4 do")


def _too_large(name: str, max_bytes: int) -> CorruptMessage:
    return CorruptMessage(f"{name} data decompresses to more than the {max_bytes} bytes that a batch may have")


def _decompress_by_guess(name: str, decompress_into: Any, data: Buffer, max_bytes: int) -> bytes:
    # The data has no trustworthy size. A buffer that is too small is doubled: usually at most two passes, and no
    # allocation beyond the limit.
    size = min(max(_FIRST_GUESS, 4 * len(data)), max_bytes)
    while True:
        out = bytearray(size)
        try:
            written = decompress_into(data, out)
        except cramjam.DecompressionError as error:
            if "whole buffer" not in str(error):
                raise CorruptMessage(f"{name} data is damaged: {error}") from None
        else:
            del out[written:]
            return bytes(out)
        if size >= max_bytes:
            raise _too_large(name, max_bytes)
        size = min(2 * size, max_bytes)


def _compress_snappy(data: memoryview) -> bytes:
    out = bytearray(_XERIAL_HEADER)
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        out += _I32.pack(len(block))
        out += block
    return bytes(out)


def _decompress_snappy(data: memoryview, max_bytes: int) -> bytes:
    if bytes(data[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _decompress_raw_snappy(data, max_bytes, max_bytes)
    blocks: list[bytes] = []
    left, position = max_bytes, len(_XERIAL_HEADER)
    while position < len(data):
        if len(data) - position < 4:
            raise CorruptMessage("snappy data ends within a block's size")
        (size,) = _I32.unpack_from(data, position)
        position += 4
        if not 0 < size <= len(data) - position:
            raise CorruptMessage(f"a snappy block says it has {size} bytes, {len(data) - position} are left")
        blocks.append(_decompress_raw_snappy(data[position : position + size], left, max_bytes))
        left -= len(blocks[-1])
        position += size
    return b"".join(blocks)


def _decompress_raw_snappy(block: memoryview, left: int, max_bytes: int) -> bytes:
    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if size > left:
            raise _too_large("snappy", max_bytes)
        # the length is the data's own claim: a byte of input makes at most 64 bytes of output
        if size > 64 * len(block):
            raise CorruptMessage(f"snappy data of {len(block)} bytes cannot be {size} bytes decompressed")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise CorruptMessage(f"snappy data is damaged: {error}") from None


def _compress_lz4(data: memoryview) -> bytes:
    out = bytearray(_LZ4_FRAME_HEADER)
    for start in range(0, len(data), _LZ4_BLOCK):
        plain = data[start : start + _LZ4_BLOCK]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            out += _U32_LE.pack(len(block))
            out += block
        else:
            out += _U32_LE.pack(len(plain) | _LZ4_STORED)
            out += plain
    out += _LZ4_END
    return bytes(out)
