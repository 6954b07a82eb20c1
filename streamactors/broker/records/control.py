"""Control batches: the markers that end a transaction in a partition.

Owner: the transaction coordinator writes them, the log and consumers read them. One record: key = version i16 0, type
i16 (0 abort, 1 commit); value = version i16 0, coordinator epoch i32. Source: KIP-98.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import BatchBuilder

ABORT: Final = 0
COMMIT: Final = 1

_KEY: Final = struct.Struct(">hh")
_VALUE: Final = struct.Struct(">hi")


class EndTransactionMarker(NamedTuple):
    """The content of a marker."""

    committed: bool
    coordinator_epoch: int


def build_marker(
    producer_id: int, producer_epoch: int, *, committed: bool, coordinator_epoch: int, timestamp_ms: int
) -> bytearray:
    """Return a control batch that ends the producer's transaction."""
    builder = BatchBuilder()
    builder.append(_KEY.pack(0, COMMIT if committed else ABORT), _VALUE.pack(0, coordinator_epoch), timestamp_ms)
    return builder.build(producer_id=producer_id, producer_epoch=producer_epoch, transactional=True, control=True)


def read_marker(batch: RecordBatch) -> EndTransactionMarker | None:
    """Return the marker of a control batch; None if compaction emptied it, or if it is another kind of control record.

    Raises CorruptMessage if the record is malformed."""
    if batch.count == 0:
        return None
    record = next(batch.records())
    if record.key is None or len(record.key) < _KEY.size:
        raise CorruptMessage(f"the control record at offset {record.offset} has no type")
    _, kind = _KEY.unpack_from(record.key)
    if kind not in (ABORT, COMMIT):
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise CorruptMessage(f"the transaction marker at offset {record.offset} has no coordinator epoch")
    _, coordinator_epoch = _VALUE.unpack_from(record.value)
    return EndTransactionMarker(kind == COMMIT, coordinator_epoch)
