"""Append as leader: check a batch, assign its offsets, write it.

Owner: PartitionLog. This is the hot path: a batch of 1 MB costs its CRC and its write, a small batch about 4 µs. Rules:
Kafka's LogValidator and ProducerStateManager. The topic's record.validation sets how much is checked.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from streamactors.broker.errors import FencedLeaderEpoch, RecordListTooLarge
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.required_flushes import RequiredFlushes
from streamactors.broker.log.producers.producer_state import BatchMetadata
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker
from streamactors.broker.records.header import (
    CODEC_MASK,
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
    check_decompressed_size,
    check_header,
    check_records,
)

_CLIENT: Final = AppendOrigin.CLIENT
_new: Final = tuple.__new__  # The constructor of a named tuple is slower, and every append makes one.


class AppendResult(NamedTuple):
    """The outcome of an append, with the offsets of the first and the last record."""

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """-1 unless message.timestamp.type is LogAppendTime."""
    log_start_offset: int
    duplicate: bool
    """The log already has this batch. Nothing was written, and the offsets are those of the first write."""
    flush_required: bool
    """The flusher must report this append as flushed before it is answered."""
    producer_id: int
    generation: int

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1


class LeaderAppend:
    """Appends batches of clients and coordinators."""

    __slots__ = ("_log", "_required")

    def __init__(self, log: LogCore, required: RequiredFlushes) -> None:
        self._log = log
        self._required = required

    def append(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin = _CLIENT
    ) -> AppendResult:
        """Append the one batch in `records`. Offsets, leader epoch and LogAppendTime are written into the buffer.

        The caller may reuse the buffer afterwards. `now_ms` is epoch milliseconds. Raises BrokerError if nothing was
        written. After StorageError the partition is offline.
        """
        log = self._log
        with log.lock:
            if log.offline is not None:
                log.check_online()
            config = log.config
            fields = check_header(records, config.max_message_bytes, origin)
            attributes, last_offset_delta, base_timestamp, max_timestamp = fields[5:9]
            producer_id, producer_epoch, base_sequence, _ = fields[9:]
            if origin is _CLIENT and (
                config.looks_closer
                or base_timestamp > max_timestamp
                or max_timestamp > now_ms + config.message_timestamp_after_max_ms
                or base_timestamp < now_ms - config.message_timestamp_before_max_ms
            ):
                max_timestamp = self._check_closely(records, now_ms, attributes, base_timestamp, max_timestamp)
                if config.recompression is not None:
                    records, attributes = config.recompression.apply(records, attributes, config.max_message_bytes)
            size = len(records)
            if size > config.segment_bytes:
                raise RecordListTooLarge(
                    f"{log.name}: record batch of {size} bytes; segment.bytes is {config.segment_bytes}"
                )

            marker = None
            if producer_id >= 0:
                if attributes & CONTROL:
                    marker = read_marker(RecordBatch(records))
                    if marker is not None:
                        log.producer_state.check_marker(producer_id, producer_epoch, marker.coordinator_epoch)
                elif origin is _CLIENT:
                    earlier = log.producer_state.check(
                        producer_id,
                        producer_epoch,
                        base_sequence,
                        (base_sequence + last_offset_delta) & MAX_SEQUENCE,
                        bool(attributes & TRANSACTIONAL),
                    )
                    if earlier is not None:
                        return self._duplicate(producer_id, earlier)
                else:
                    log.producer_state.check_epoch(producer_id, producer_epoch)

            append_time = -1
            if config.stamps and origin is _CLIENT:
                append_time = max_timestamp = now_ms
                attributes |= LOG_APPEND_TIME
                assign_timestamps(records, attributes, now_ms)
            base_offset = log.end_offset
            last_offset = base_offset + last_offset_delta
            segment = log.segment_list.active
            try:
                if segment.must_roll(size, last_offset, max_timestamp, now_ms, config):
                    segment = log.begin_segment(now_ms, base_offset)
                if leader_epoch != log.epochs.latest:
                    self._change_epoch(leader_epoch)
                assign_offset(records, base_offset, leader_epoch)
                if marker is not None:
                    log.segment_list.transactions_of(segment)  # Load it before the write, because loading can fail.
                segment.append(records, size, last_offset, max_timestamp)
            except OSError as error:
                raise log.append_failed(error) from error
            log.end_offset = end_offset = last_offset + 1
            if producer_id >= 0:
                batch = BatchMetadata(
                    base_sequence,
                    (base_sequence + last_offset_delta) & MAX_SEQUENCE if base_sequence >= 0 else -1,
                    base_offset,
                    last_offset,
                    max_timestamp,
                )
                log.note_producer(producer_id, producer_epoch, batch, attributes, marker, now_ms)
            required = self._required
            flush_required = end_offset - required.counted_from >= config.flush_messages
            if flush_required:
                required.require(base_offset, end_offset)
            if log.sole_replica and (limit := required.limit(end_offset)) > log.high_watermark:
                log.set_high_watermark(limit)
            start, generation = log.log_start_offset, log.generation
            return _new(
                AppendResult,
                (base_offset, last_offset, append_time, start, False, flush_required, producer_id, generation),
            )

    def _change_epoch(self, leader_epoch: int) -> None:
        log = self._log
        if leader_epoch < log.epochs.latest:
            raise FencedLeaderEpoch(
                f"{log.name}: leader epoch {leader_epoch} is older than the current epoch {log.epochs.latest}"
            )
        log.assign_epoch(leader_epoch, log.end_offset)

    def _check_closely(
        self, records: memoryview, now_ms: int, attributes: int, base_timestamp: int, max_timestamp: int
    ) -> int:
        """Check timestamps and, if the topic requires it, every record. Return the greatest timestamp."""
        config, bounds = self._log.config, None
        if config.limits_decompressed and attributes & CODEC_MASK:
            check_decompressed_size(records, config.max_decompressed_message_bytes)
        if not config.stamps:
            bounds = TimestampBounds(
                max(now_ms - config.message_timestamp_before_max_ms, NO_TIMESTAMP + 1),
                now_ms + config.message_timestamp_after_max_ms,
            )
        if config.walks:
            greatest = check_records(records, keys_required=config.compacts, bounds=bounds)
        elif bounds is not None:
            greatest = check_create_time(records, base_timestamp, max_timestamp, bounds)
        else:
            return max_timestamp
        if bounds is not None and greatest != max_timestamp:
            assign_timestamps(records, attributes, greatest)  # The header's value was wrong.
        return greatest

    def _duplicate(self, producer_id: int, earlier: BatchMetadata) -> AppendResult:
        log = self._log
        return AppendResult(
            earlier.first_offset,
            earlier.last_offset,
            earlier.timestamp if log.config.stamps else -1,
            log.log_start_offset,
            True,
            earlier.last_offset >= self._required.limit(log.end_offset),
            producer_id,
            log.generation,
        )
