"""Batches of control records of the metadata log and its snapshots: the leader, the voters, and the beginning and end of a snapshot.

Owner: the metadata log, its snapshots and the storage tool write them; brokers do not show them to clients. A record's key has a version
and the kind, both i16; the value depends on the kind. Source: KIP-595, KIP-630, KIP-853."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import BatchBuilder

LEADER_CHANGE: Final = 2
SNAPSHOT_HEADER: Final = 3
SNAPSHOT_FOOTER: Final = 4
KRAFT_VERSION: Final = 5
KRAFT_VOTERS: Final = 6

_KEY: Final = struct.Struct(">hh")


class ControlRecord(NamedTuple):
    """One control record; the value is encoded."""

    kind: int
    value: bytes


def control_batch(
    records: Iterable[ControlRecord], now_ms: int, *, base_offset: int = 0, leader_epoch: int
) -> bytearray:
    """Return the batch of these control records."""
    builder = BatchBuilder()
    for kind, value in records:
        builder.append(_KEY.pack(0, kind), value, now_ms)
    return builder.build(base_offset=base_offset, leader_epoch=leader_epoch, control=True)


def control_records(batch: RecordBatch) -> Iterator[ControlRecord]:
    """Yield the records of a control batch. Raises CorruptMessage for a record without a kind."""
    for record in batch.records():
        if record.key is None or len(record.key) < _KEY.size:
            raise CorruptMessage(f"the control record at offset {record.offset} has no kind")
        yield ControlRecord(_KEY.unpack_from(record.key)[1], b"" if record.value is None else bytes(record.value))
