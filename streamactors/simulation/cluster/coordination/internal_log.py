"""One partition of an internal topic, as bytes: a new coordinator folds them, exactly as the broker's does.

Owner: a `Coordinators`. There is one copy. It survives its brokers, as a topic with three replicas does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerState
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker

_BASE_OFFSET: Final = struct.Struct(">q")


class InternalLog:
    """Batches of a coordinator."""

    def __init__(self) -> None:
        self._batches: list[bytearray] = []
        self.end_offset = 0
        self.producers = ProducerState()

    def append(self, data: bytearray, now_ms: int) -> int:
        """Append a batch, and return its base offset. Raises a Refusal for a marker of an old epoch."""
        _BASE_OFFSET.pack_into(data, 0, self.end_offset)
        batch = RecordBatch(data)
        base = self.end_offset
        if batch.is_control:
            marker = read_marker(batch)
            assert marker is not None
            self.producers.check_marker(batch.producer_id, batch.producer_epoch, marker.coordinator_epoch)
            self.producers.append_marker(
                batch.producer_id, batch.producer_epoch, marker.coordinator_epoch, marker.committed, base,
                batch.max_timestamp, now_ms,
            )  # fmt: skip
        elif batch.is_transactional:
            self.producers.check_epoch(batch.producer_id, batch.producer_epoch)
            metadata = BatchMetadata(-1, -1, base, batch.last_offset, batch.max_timestamp)
            self.producers.append(batch.producer_id, batch.producer_epoch, metadata, True, now_ms)
        self._batches.append(data)
        self.end_offset = batch.next_offset
        self.producers.high_watermark_moved(self.end_offset)
        return base

    def is_open(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether this producer epoch has an open transaction here."""
        entry = self.producers.entries.get(producer_id)
        return entry is not None and entry.producer_epoch == producer_epoch and entry.transaction_first_offset >= 0

    def replay(self) -> Iterator[RecordBatch]:
        """Yield all batches."""
        return map(RecordBatch, self._batches)
