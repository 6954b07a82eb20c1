"""The part of a batch that compaction retains: all records, some, an empty header, or nothing.

Owner: one pass of the cleaner. Offsets never change: a batch keeps its base and last offset. A tombstone (a record without a
value) stays until delete.retention.ms after the first pass that saw it. That time replaces the batch's base timestamp, and
bit 6 of the attributes is set. Source: KIP-534, Kafka's MemoryRecords.filterTo.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streamactors.broker.log.cleaning.cleaned_transactions import CleanedTransactions
from streamactors.broker.log.cleaning.offset_map import OffsetMap
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.builder import assemble
from streamactors.broker.records.compression import compress
from streamactors.broker.records.header import (
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    Buffer,
)
from streamactors.broker.records.record_reader import RecordSpan, walk_records
from streamactors.broker.records.varint import read_varint, write_varint


class LastOfProducer(NamedTuple):
    """The last batch of a producer that is still active. Its sequence must survive compaction."""

    last_offset: int
    """Last offset of its last data batch, -1 if it has none."""
    epoch: int


class BatchFilter:
    """The rules of one pass over one log."""

    def __init__(
        self,
        offsets: OffsetMap,
        transactions: CleanedTransactions,
        producers: Mapping[int, LastOfProducer],
        *,
        end_of_round: int,
        now_ms: int,
        delete_retention_ms: int,
    ) -> None:
        self._offsets = offsets
        self._transactions = transactions
        self._producers = producers
        self._end_of_round = end_of_round
        self._now_ms = now_ms
        self._delete_retention_ms = delete_retention_ms

    def retained(self, batch: RecordBatch) -> Buffer | None:
        """Return the retained batch, None if nothing stays. Call it for the batches in the order of the log.

        Raises CorruptMessage for a batch that cannot be read."""
        horizon = batch.delete_horizon_ms
        idle_marker = False
        if batch.is_control:
            idle_marker = self._transactions.marker_is_idle(batch)
            keep_nothing = idle_marker and horizon is not None and horizon <= self._now_ms
        else:
            keep_nothing = self._transactions.data_was_aborted(batch)
        kept: list[RecordSpan] = []
        payload = b""
        tombstones = False
        if not keep_nothing and batch.count:
            payload = batch.payload()
            for span in walk_records(payload, batch.count):
                if batch.is_control or self._keeps(batch, span, payload, horizon):
                    kept.append(span)
                    tombstones = tombstones or (span.value_size < 0 and not batch.is_control)
        if not kept:
            return self._empty(batch) if self._must_stay(batch) else None
        if (tombstones or idle_marker) and horizon is None:
            return _rebuilt(batch, payload, kept, self._now_ms + self._delete_retention_ms)
        if len(kept) == batch.count:
            return batch.view()
        return _rebuilt(batch, payload, kept, None)

    def _keeps(self, batch: RecordBatch, span: RecordSpan, payload: bytes, horizon: int | None) -> bool:
        offset = batch.base_offset + span.offset_delta
        if offset > self._offsets.latest_offset:
            return True
        if span.key_size < 0:
            return False  # A record without a key, from before the topic was compacted.
        if offset < self._offsets.get(payload[span.key_at : span.key_at + span.key_size]):
            return False
        return span.value_size >= 0 or horizon is None or self._now_ms < horizon

    def _must_stay(self, batch: RecordBatch) -> bool:
        """Whether to keep an empty batch: it marks the end of the round, or a producer's sequence and epoch."""
        if batch.next_offset == self._end_of_round:
            return True
        last = self._producers.get(batch.producer_id) if batch.producer_id >= 0 else None
        if last is None:
            return False
        if last.last_offset >= 0:
            return batch.last_offset == last.last_offset
        return batch.is_control and batch.producer_epoch == last.epoch

    def _empty(self, batch: RecordBatch) -> bytearray:
        return assemble(
            b"",
            base_offset=batch.base_offset,
            leader_epoch=batch.leader_epoch,
            attributes=batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL),
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            count=0,
        )


def _rebuilt(batch: RecordBatch, payload: bytes, kept: list[RecordSpan], new_horizon: int | None) -> bytearray:
    """Return the batch with only the kept records, and with the new delete horizon if there is one."""
    base_timestamp = batch.base_timestamp if new_horizon is None else new_horizon
    shift = batch.base_timestamp - base_timestamp
    records = bytearray()
    for span in kept:
        if shift:
            _write_shifted(records, payload, span, shift)
        else:
            records += payload[span.start : span.end]
    greatest = batch.max_timestamp
    if not batch.is_log_append_time:
        greatest = max(batch.base_timestamp + span.timestamp_delta for span in kept)
    return assemble(
        compress(batch.compression, records) if batch.compression else records,
        base_offset=batch.base_offset,
        leader_epoch=batch.leader_epoch,
        attributes=batch.attributes if new_horizon is None else batch.attributes | DELETE_HORIZON,
        last_offset_delta=batch.last_offset_delta,
        base_timestamp=base_timestamp,
        max_timestamp=greatest,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=len(kept),
    )


def _write_shifted(out: bytearray, payload: bytes, span: RecordSpan, shift: int) -> None:
    """Append the record with a changed timestamp delta. Other bytes are copied."""
    _, position = read_varint(payload, span.start)  # length
    body = bytearray(payload[position : position + 1])  # attributes
    _, position = read_varint(payload, position + 1)  # the old timestamp delta
    write_varint(body, span.timestamp_delta + shift)
    body += payload[position : span.end]
    write_varint(out, len(body))
    out += body
