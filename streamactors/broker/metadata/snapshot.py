"""Snapshots of the metadata: an image as a file of records, so that the log before it can be deleted.

Owner: MetadataLog. Format and name are Apache Kafka's (KIP-630): `<offset>-<epoch>.checkpoint` beside the log's segments holds the
image before the offset, between a header and a footer batch. A file without a footer is incomplete.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from streamactors.broker.metadata.metadata_codec import decode_record, encode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.builder import BatchBuilder, build_batch
from streamactors.broker.records.record import NewRecord

RECORDS_PER_BATCH: Final = 1000
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"  # in the data folder: the records with which the first controller begins
HEADER: Final = 3
FOOTER: Final = 4

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_CONTROL_KEY: Final = struct.Struct(">hh")  # version, kind
_HEADER_VALUE: Final = struct.Struct(">hqB")  # version, timestamp of the last record in it, no tagged fields
_FOOTER_VALUE: Final = b"\x00\x00\x00"


def snapshot_name(offset: int, epoch: int) -> str:
    """Return the file name of a snapshot of everything before `offset`."""
    return f"{offset:020d}-{epoch:010d}.checkpoint"


def snapshots(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return (offset, name) of the snapshots among the names of a folder, the oldest first."""
    return sorted((int(match[1]), name) for name in names if (match := _NAME.fullmatch(name)))


def encode_snapshot(records: Iterable[MetadataRecord], epoch: int, now_ms: int) -> bytes:
    """Return the content of a snapshot file."""
    out = bytearray(_control(HEADER, _HEADER_VALUE.pack(0, now_ms, 0), 0, epoch, now_ms))
    offset = 1
    left = iter(records)
    while chunk := list(islice(left, RECORDS_PER_BATCH)):
        values = [NewRecord(None, encode_record(record), now_ms) for record in chunk]
        out += build_batch(values, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    out += _control(FOOTER, _FOOTER_VALUE, offset, epoch, now_ms)
    return bytes(out)


def decode_snapshot(path: Path, content: bytes) -> Iterator[MetadataRecord]:
    """Yield the records of a snapshot. Raises CorruptRecord or CorruptMessage, at the latest after the last record."""
    whole = False
    for batch in iter_batches(memoryview(bytearray(content))):
        batch.ensure_valid()
        if batch.is_control:
            whole = _kind(batch) == FOOTER
            continue
        for record in batch.records():
            if record.value is None:
                raise CorruptRecord(f"record {record.offset} of {path} is empty")
            yield decode_record(bytes(record.value))
    if not whole:
        raise CorruptRecord(f"{path} ends before its footer")


def _control(kind: int, value: bytes, offset: int, epoch: int, now_ms: int) -> bytearray:
    builder = BatchBuilder()
    builder.append(_CONTROL_KEY.pack(0, kind), value, now_ms)
    return builder.build(base_offset=offset, leader_epoch=epoch, control=True)


def _kind(batch: RecordBatch) -> int:
    record = next(batch.records())
    if record.key is None or len(record.key) < _CONTROL_KEY.size:
        raise CorruptRecord(f"the control record at offset {record.offset} has no kind")
    kind: int = _CONTROL_KEY.unpack_from(record.key)[1]
    return kind
