"""Turns the batches of the metadata log into deltas: whole batches only, and transactions only as a whole (KIP-868).

Owner: the metadata log of a controller, and the observer of a broker that follows one. Rules: Apache Kafka's MetadataBatchLoader.
"""

from __future__ import annotations

from collections.abc import Iterable

from streamactors.broker.metadata.delta import ImageDelta, apply_records
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_codec import decode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.transaction_record import AbortTransaction, BeginTransaction, EndTransaction
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.batch import RecordBatch


class MetadataLoader:
    """Collects the records of committed batches. `take` returns their effect as one delta."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._delta = ImageDelta(image)
        self._offset = image.offset
        self._held: list[MetadataRecord] | None = None  # of a transaction that has not ended
        self._moved = False  # since the last delta

    @property
    def in_transaction(self) -> bool:
        """Whether the batches so far end within a transaction."""
        return self._held is not None

    def replay(self, records: Iterable[MetadataRecord], last_offset: int) -> None:
        """Apply the records of one batch, which ends at `last_offset`. A control batch has none. Raises CorruptRecord."""
        for record in records:
            if isinstance(record, BeginTransaction):
                if self._held is not None:
                    raise CorruptRecord("a transaction of the metadata log begins within another one")
                self._held = []
            elif isinstance(record, EndTransaction | AbortTransaction):
                if self._held is None:
                    raise CorruptRecord("a transaction of the metadata log ends that never began")
                held, self._held = self._held, None
                if isinstance(record, EndTransaction):
                    for each in held:
                        self._delta.replay(each)
            elif self._held is not None:
                self._held.append(record)
            else:
                self._delta.replay(record)
        if self._held is None:
            self._offset = last_offset
            self._moved = True

    def take(self) -> ImageDelta | None:
        """Return the finished delta since the last call, None if no batch has ended outside a transaction since then."""
        if not self._moved:
            return None
        self._moved = False
        delta = self._delta
        self._image = delta.finish(self._offset)
        self._delta = ImageDelta(self._image)
        return delta

    def restart(self, records: Iterable[MetadataRecord], offset: int) -> ImageDelta:
        """Continue after a snapshot of everything up to `offset`; return the delta from the last taken image to it.

        Raises CorruptRecord."""
        fresh = apply_records(MetadataImage(), records, offset).image
        delta = ImageDelta.between(self._image, fresh)
        self._image = fresh
        self._delta = ImageDelta(fresh)
        self._offset = offset
        self._held = None
        self._moved = False
        return delta


def batch_records(batch: RecordBatch) -> list[MetadataRecord]:
    """Return the records of a batch of the metadata log; none of a control batch, which is about the quorum.

    Raises CorruptRecord."""
    if batch.is_control:
        return []
    records = []
    for each in batch.records():
        if each.value is None:
            raise CorruptRecord(f"record {each.offset} is empty")
        records.append(decode_record(bytes(each.value)))
    return records
