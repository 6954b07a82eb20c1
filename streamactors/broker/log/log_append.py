"""Appending as leader: what is checked, assigned and written.

Owner: PartitionLog. The hot path: a batch of 1 MB costs its CRC and its write, a small one some 5 µs. Rules: Kafka's
LogValidator and ProducerStateManager; the level of validation is the topic's record.validation.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, FencedLeaderEpoch, RecordListTooLarge
from streamactors.broker.log.log_core import LogCore
from streamactors.broker.log.producer_state import BatchMetadata
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import EndTransactionMarker, read_marker
from streamactors.broker.records.header import (
    CONTROL,
    LOG_APPEND_TIME,
    MAX_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    assign_offset,
    assign_timestamps,
)
from streamactors.broker.records.validation import (
    AppendOrigin,
    TimestampBounds,
    check_create_time,
    check_header,
    check_records,
)

_CLIENT: Final = AppendOrigin.CLIENT
_new: Final = tuple.__new__  # a named tuple's own constructor is slower, and one is made for every batch


class AppendResult(NamedTuple):
    """What became of an append. Offsets are the first and the last record's."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless the topic stamps records itself."""
    log_start_offset: int
    duplicate: bool
    """The batch was there already; nothing was written and the offsets are the original's."""
    flush_required: bool
    """No answer may leave before the log's flusher has called back for this result."""
    producer_id: int
    generation: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class LogAppend(LogCore):
    """The writing side of a leader's log."""

    __slots__ = ()

    @property
    def hw_limit(self) -> int:
        """How far the high watermark may go: to the end, or to the first record whose required flush is still owed."""
        return self._owed_from if self._owed_from < self._owed_to else self.end_offset

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin = _CLIENT
    ) -> AppendResult:
        """Append the one batch in `records`, which is changed in place: offsets, leader epoch, LogAppendTime.

        The buffer may be used again when this returns. `now_ms` is epoch milliseconds. Raises BrokerError: of the
        batch's faults nothing has been written then; StorageError takes the partition offline.
        """
        with self.lock:
            if self.offline is not None:
                self._check_online()
            config = self.config
            fields = check_header(records, config.max_message_bytes, origin)
            attributes, last_offset_delta, base_timestamp, max_timestamp = fields[5:9]
            producer_id, producer_epoch, base_sequence, _ = fields[9:]
            if origin is _CLIENT and (
                self._walks
                or base_timestamp > max_timestamp
                or max_timestamp > now_ms + config.message_timestamp_after_max_ms
                or base_timestamp < now_ms - config.message_timestamp_before_max_ms
            ):
                max_timestamp = self._check_closely(records, now_ms, attributes, base_timestamp, max_timestamp)
            size = len(records)
            if size > config.segment_bytes:
                raise RecordListTooLarge(
                    f"{self.name}: record batch of {size} bytes; segment.bytes is {config.segment_bytes}"
                )

            marker = None
            if producer_id >= 0:
                if attributes & CONTROL:
                    marker = read_marker(RecordBatch(records))
                    if marker is not None:
                        self.producer_state.check_marker(producer_id, producer_epoch, marker.coordinator_epoch)
                elif origin is _CLIENT:
                    earlier = self.producer_state.check(
                        producer_id,
                        producer_epoch,
                        base_sequence,
                        (base_sequence + last_offset_delta) & MAX_SEQUENCE,
                        bool(attributes & TRANSACTIONAL),
                    )
                    if earlier is not None:
                        return self._duplicate(producer_id, earlier)
                else:
                    self.producer_state.check_epoch(producer_id, producer_epoch)

            append_time = -1
            if self._stamps and origin is _CLIENT:
                append_time = max_timestamp = now_ms
                attributes |= LOG_APPEND_TIME
                assign_timestamps(records, attributes, now_ms)
            base_offset = self.end_offset
            last_offset = base_offset + last_offset_delta
            segment = self.active
            try:
                if segment.must_roll(size, last_offset, max_timestamp, now_ms, config):
                    segment = self._roll(now_ms)
                if leader_epoch != self.epochs.latest:
                    self._change_epoch(leader_epoch)
                assign_offset(records, base_offset, leader_epoch)
                segment.append(records, size, last_offset, max_timestamp)
            except OSError as error:
                raise self._append_failed(error) from error
            self.end_offset = end_offset = last_offset + 1
            if producer_id >= 0:
                batch = BatchMetadata(
                    base_sequence,
                    (base_sequence + last_offset_delta) & MAX_SEQUENCE if base_sequence >= 0 else -1,
                    base_offset,
                    last_offset,
                    max_timestamp,
                )
                self._note_producer(producer_id, producer_epoch, batch, attributes, marker, now_ms)
            flush_required = end_offset - self._flush_from >= config.flush_messages
            if flush_required:
                self._flush_from = end_offset
                if self._owed_from >= self._owed_to:
                    self._owed_from = base_offset
                self._owed_to = end_offset
            if self.sole_replica and (limit := self.hw_limit) > self.high_watermark:
                self._raise_high_watermark(limit)
            start, generation = self.log_start_offset, self.generation
            return _new(
                AppendResult,
                (base_offset, last_offset, append_time, start, False, flush_required, producer_id, generation),
            )

    def _change_epoch(self, leader_epoch: int) -> None:
        if leader_epoch < self.epochs.latest:
            raise FencedLeaderEpoch(
                f"{self.name}: leader epoch {leader_epoch} is over, {self.epochs.latest} is current"
            )
        self._assign_epoch(leader_epoch, self.end_offset)

    def _check_closely(
        self, records: memoryview, now_ms: int, attributes: int, base_timestamp: int, max_timestamp: int
    ) -> int:
        """Check timestamps and, where the topic wants it, every record; return the greatest timestamp."""
        bounds = None
        if not self._stamps:
            config = self.config
            bounds = TimestampBounds(
                max(now_ms - config.message_timestamp_before_max_ms, NO_TIMESTAMP + 1),
                now_ms + config.message_timestamp_after_max_ms,
            )
        if self._walks:
            greatest = check_records(records, keys_required=self.config.compacts, bounds=bounds)
        elif bounds is not None:
            greatest = check_create_time(records, base_timestamp, max_timestamp, bounds)
        else:
            return max_timestamp
        if bounds is not None and greatest != max_timestamp:
            assign_timestamps(records, attributes, greatest)  # the header lied
        return greatest

    def _duplicate(self, producer_id: int, earlier: BatchMetadata) -> AppendResult:
        return AppendResult(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp if self._stamps else -1,
            self.log_start_offset,
            True,
            earlier.last_offset >= self.hw_limit,
            producer_id,
            self.generation,
        )

    def _note_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        batch: BatchMetadata,
        attributes: int,
        marker: EndTransactionMarker | None,
        now_ms: int,
    ) -> None:
        """Take a written batch into producer state and transaction index."""
        if not attributes & CONTROL:
            self.producer_state.append(producer_id, producer_epoch, batch, bool(attributes & TRANSACTIONAL), now_ms)
        elif marker is not None:
            aborted = self.producer_state.append_marker(
                producer_id,
                producer_epoch,
                marker.coordinator_epoch,
                marker.committed,
                batch.last_offset,
                batch.timestamp,
                now_ms,
            )
            if aborted is not None:
                self.active.aborted.append(aborted)
        self.producer_state.end_offset = self.end_offset
        if attributes & TRANSACTIONAL:
            self.first_unstable = self.producer_state.first_unstable()

    def _append_failed(self, error: OSError) -> BrokerError:
        # What was written of the batch lies after the segment's size; recovery would cut it off, but so do we.
        try:
            self.active.log.truncate(self.active.size)
        except OSError:
            pass
        return self._go_offline("append", error)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to the offset, or to the log's end if that is less; return whether it moved."""
        with self.lock:
            offset = min(offset, self.end_offset)
            if offset <= self.high_watermark:
                return False
            self._raise_high_watermark(offset)
            return True

    def _raise_high_watermark(self, offset: int) -> None:
        self.high_watermark = offset
        if self.first_unstable is not None:
            self.producer_state.high_watermark_moved(offset)
            self.first_unstable = self.producer_state.first_unstable()
