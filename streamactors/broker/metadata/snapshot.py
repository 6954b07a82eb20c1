"""Snapshots of the metadata: an image as a file of records, so that the log before it can be deleted.

Owner: MetadataLog. Format and name are Apache Kafka's (KIP-630): `<offset>-<epoch>.checkpoint` beside the log's segments holds the
image before the offset, between a header and a footer batch. A file without a footer is incomplete.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final

from streamactors.broker.metadata.metadata_codec import decode_record, encode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.control_batch import (
    KRAFT_VERSION,
    KRAFT_VOTERS,
    SNAPSHOT_FOOTER,
    SNAPSHOT_HEADER,
    ControlRecord,
    control_batch,
    control_records,
)
from streamactors.broker.records.record import NewRecord

RECORDS_PER_BATCH: Final = 1000
BOOTSTRAP_FILE: Final = "bootstrap.checkpoint"  # in the data folder: the records with which the first controller begins

_NAME: Final = re.compile(r"(\d{20})-(\d{10})\.checkpoint")
_HEADER_VALUE: Final = struct.Struct(">hqB")  # version, timestamp of the last record in it, no tagged fields
_FOOTER_VALUE: Final = b"\x00\x00\x00"


def snapshot_name(offset: int, epoch: int) -> str:
    """Return the file name of a snapshot of everything before `offset`."""
    return f"{offset:020d}-{epoch:010d}.checkpoint"


def snapshots(names: Iterable[str]) -> list[tuple[int, str]]:
    """Return (offset, name) of the snapshots among the names of a folder, the oldest first."""
    return sorted((int(match[1]), name) for name in names if (match := _NAME.fullmatch(name)))


def encode_snapshot(
    records: Iterable[MetadataRecord], epoch: int, now_ms: int, quorum: Sequence[ControlRecord] = ()
) -> bytes:
    """Return the content of a snapshot file. `quorum` are the records of its voters, which follow the header."""
    header = ControlRecord(SNAPSHOT_HEADER, _HEADER_VALUE.pack(0, now_ms, 0))
    out = control_batch([header, *quorum], now_ms, leader_epoch=epoch)
    offset = 1 + len(quorum)
    left = iter(records)
    while chunk := list(islice(left, RECORDS_PER_BATCH)):
        values = [NewRecord(None, encode_record(record), now_ms) for record in chunk]
        out += build_batch(values, base_offset=offset, leader_epoch=epoch)
        offset += len(chunk)
    footer = ControlRecord(SNAPSHOT_FOOTER, _FOOTER_VALUE)
    out += control_batch([footer], now_ms, base_offset=offset, leader_epoch=epoch)
    return bytes(out)


def quorum_of(batch: RecordBatch) -> list[ControlRecord]:
    """Return the records of a batch that name the voters. Raises CorruptMessage."""
    if not batch.is_control:
        return []
    return [each for each in control_records(batch) if each.kind in (KRAFT_VERSION, KRAFT_VOTERS)]


def quorum_of_snapshot(content: bytes) -> list[ControlRecord]:
    """Return the records after the header of a snapshot that name the voters. Raises CorruptMessage."""
    first = next(iter_batches(memoryview(bytearray(content))), None)
    return [] if first is None else quorum_of(first)


def decode_snapshot(path: Path, content: bytes) -> Iterator[MetadataRecord]:
    """Yield the records of a snapshot. Raises CorruptRecord or CorruptMessage, at the latest after the last record."""
    whole = False
    for batch in iter_batches(memoryview(bytearray(content))):
        batch.ensure_valid()
        if batch.is_control:
            whole = any(kind == SNAPSHOT_FOOTER for kind, _ in control_records(batch))
            continue
        for record in batch.records():
            if record.value is None:
                raise CorruptRecord(f"record {record.offset} of {path} is empty")
            yield decode_record(bytes(record.value))
    if not whole:
        raise CorruptRecord(f"{path} ends before its footer")
