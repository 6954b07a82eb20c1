"""Recompression of a batch for topics whose compression.type is not `producer` (KIP-390).

Owner: pure; the leader's log calls it before an append. Only length, codec, payload and CRC of the batch change. A batch that
already has the topic's codec is kept, whatever its level. Cost: one decompression and one compression under the log's lock.
Source: Kafka's LogValidator.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from streamactors.broker.errors import MessageTooLarge
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.compression import Compression, compress
from streamactors.broker.records.header import ATTRIBUTES_AT, CODEC_MASK, HEADER_SIZE, LOG_OVERHEAD, seal

_CODECS: Final = {
    "uncompressed": Compression.NONE,
    "gzip": Compression.GZIP,
    "snappy": Compression.SNAPPY,
    "lz4": Compression.LZ4,
    "zstd": Compression.ZSTD,
}
_LENGTH_AT: Final = 8
_I32: Final = struct.Struct(">i")
_I16: Final = struct.Struct(">h")


class Recompression(NamedTuple):
    """The codec and level in which a topic stores batches."""

    codec: Compression
    level: int | None
    """None: the codec's default level, or a codec without levels."""

    @classmethod
    def of(cls, compression_type: str, *, gzip_level: int, zstd_level: int) -> Recompression | None:
        """Return the codec that a topic's settings name; None for `producer`, which keeps the codec of the producer."""
        if compression_type == "producer":
            return None
        codec = _CODECS[compression_type]
        levels = {Compression.GZIP: gzip_level, Compression.ZSTD: zstd_level}
        return cls(codec, levels.get(codec))

    def apply(self, records: memoryview, attributes: int, max_message_bytes: int) -> tuple[memoryview, int]:
        """Return the batch in `records` in this codec, and its attributes; `records` itself if the batch has the codec.

        Raises CorruptMessage if the batch cannot be decompressed, MessageTooLarge if the result exceeds the limit.
        """
        if attributes & CODEC_MASK == self.codec:
            return records, attributes
        payload = compress(self.codec, RecordBatch(records).payload(), self.level)
        size = HEADER_SIZE + len(payload)
        if size > max_message_bytes:
            raise MessageTooLarge(
                f"record batch of {len(records)} bytes, {size} as {self.codec.name.lower()}; "
                f"max.message.bytes is {max_message_bytes}"
            )
        attributes = attributes & ~CODEC_MASK | self.codec
        batch = bytearray(records[:HEADER_SIZE])
        batch += payload
        _I32.pack_into(batch, _LENGTH_AT, size - LOG_OVERHEAD)
        _I16.pack_into(batch, ATTRIBUTES_AT, attributes)
        seal(batch)
        return memoryview(batch), attributes
