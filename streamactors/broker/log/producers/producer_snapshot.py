"""Producer snapshots: each file <offset>.snapshot holds the producer state of the log at that offset.

Owner: PartitionLog. Layout (big-endian): version i16 1, CRC32C u32 of all that follows, count i32, then per producer: id
i64, epoch i16, last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, first offset of
the open transaction i64 (-1: none). Source: Kafka's ProducerSnapshot.

Kafka writes only the last batch of each producer. After a restart it cannot recognise the retry of an earlier batch, and the
client gets OUT_OF_ORDER_SEQUENCE_NUMBER. Here the earlier batches of a producer precede its last one, as entries of their own.
Kafka can read such a file, because there the last entry of a producer wins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerEntry
from streamactors.broker.log.segments.segment_files import SNAPSHOT_SUFFIX, snapshot_path
from streamactors.broker.records.checksum import crc32c
from streamactors.broker.records.header import MAX_SEQUENCE

VERSION: Final = 1
_HEAD: Final = struct.Struct(">hIi")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_CRC_FROM: Final = 6


def snapshot_offsets(disk: Disk, directory: Path) -> list[int]:
    """Return the offsets of the existing snapshots, in order."""
    names = (name.removesuffix(SNAPSHOT_SUFFIX) for name in disk.names(directory) if name.endswith(SNAPSHOT_SUFFIX))
    return sorted(int(name) for name in names if len(name) == 20 and name.isascii() and name.isdigit())


def encode_snapshot(entries: Iterable[ProducerEntry]) -> bytes:
    """Return the file's content."""
    packed = [packed for entry in entries for packed in _pack(entry)]
    data = bytearray(_HEAD.pack(VERSION, 0, len(packed)) + b"".join(packed))
    struct.pack_into(">I", data, 2, crc32c(memoryview(data)[_CRC_FROM:]))
    return bytes(data)


def _pack(entry: ProducerEntry) -> Iterator[bytes]:
    """Yield the entries of the producer's batches. Only the last entry has timestamp and transaction of the producer."""
    batches = entry.batches or (BatchMetadata(-1, -1, -1, -1, entry.last_timestamp),)
    for number, batch in enumerate(batches, 1):
        is_last = number == len(batches)
        yield _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            batch.last_sequence,
            batch.last_offset,
            batch.last_offset - batch.first_offset,
            entry.last_timestamp if is_last else batch.timestamp,
            entry.coordinator_epoch,
            entry.transaction_first_offset if is_last else -1,
        )


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Read the file's content. Raises ValueError if it is damaged or of another version."""
    if len(data) < _HEAD.size:
        raise ValueError(f"a producer snapshot of {len(data)} bytes")
    version, crc, count = _HEAD.unpack_from(data)
    if version != VERSION:
        raise ValueError(f"a producer snapshot of version {version}; only version {VERSION} is known")
    if crc != crc32c(data[_CRC_FROM:]):
        raise ValueError("a producer snapshot with a wrong CRC")
    if count < 0 or len(data) - _HEAD.size != count * _ENTRY.size:
        raise ValueError(f"a producer snapshot that promises {count} entries in {len(data)} bytes")
    entries: dict[int, ProducerEntry] = {}
    for fields in _ENTRY.iter_unpack(data[_HEAD.size :]):
        producer_id, epoch, sequence, last_offset, delta, timestamp, coordinator_epoch, transaction_first_offset = (
            fields
        )
        entry = entries.get(producer_id)
        if entry is None or entry.producer_epoch != epoch:
            entry = entries[producer_id] = ProducerEntry(producer_id, epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.transaction_first_offset = transaction_first_offset
        if last_offset >= 0:
            first = sequence - delta if sequence >= delta else sequence - delta + MAX_SEQUENCE + 1
            entry.batches.append(BatchMetadata(first, sequence, last_offset - delta, last_offset, timestamp))
    return list(entries.values())


def load_snapshot(disk: Disk, directory: Path, *, at_least: int, at_most: int) -> tuple[int, list[ProducerEntry]]:
    """Return (offset, entries) of the latest valid snapshot in the range; (at_least, []) without one.

    Damaged snapshots are removed.
    """
    for offset in reversed(snapshot_offsets(disk, directory)):
        if not at_least <= offset <= at_most:
            continue
        path = snapshot_path(directory, offset)
        try:
            return offset, decode_snapshot(disk.read(path))
        except ValueError:
            disk.remove(path)
    return at_least, []
