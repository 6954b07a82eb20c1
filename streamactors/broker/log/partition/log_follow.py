"""Append as follower: write the leader's batches unchanged, with their offsets and epochs.

Owner: PartitionLog. The leader has checked the sequences, so the follower only updates its producer state. Source:
Kafka's replica fetcher.
"""

from __future__ import annotations

from streamactors.broker.errors import BrokerError, CorruptMessage
from streamactors.broker.log.partition.log_append import AppendResult
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.producers.producer_state import BatchMetadata
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.control import read_marker


class UnexpectedAppendOffset(BrokerError):
    """The leader sent batches that the follower's log already has."""


class FollowerAppend:
    """Appends batches that were fetched from the leader."""

    __slots__ = ("_log",)

    def __init__(self, log: LogCore) -> None:
        self._log = log

    def append(self, records: memoryview, now_ms: int) -> AppendResult:
        """Append the leader's batches unchanged. A partial batch at the end is ignored.

        Raises CorruptMessage, UnexpectedAppendOffset (the log already has these offsets) and StorageError.
        """
        log, files = self._log, self._log.segment_list
        with log.lock:
            log.check_online()
            first = log.end_offset
            for batch in iter_batches(records):
                batch.ensure_valid()
                if batch.base_offset < log.end_offset or batch.last_offset_delta < 0:
                    raise UnexpectedAppendOffset(
                        f"{log.name}: the leader sent offsets {batch.base_offset}-{batch.last_offset}, "
                        f"the log ends at {log.end_offset}"
                    )
                marker = read_marker(batch) if batch.is_control else None
                try:
                    if files.active.must_roll(batch.size, batch.last_offset, batch.max_timestamp, now_ms, log.config):
                        log.begin_segment(now_ms, batch.base_offset)
                    if batch.leader_epoch != log.epochs.latest:
                        log.assign_epoch(batch.leader_epoch, batch.base_offset)
                    if marker is not None:
                        files.transactions_of(files.active)  # Load it before the write, because loading can fail.
                    files.active.append(batch.view(), batch.size, batch.last_offset, batch.max_timestamp)
                except OSError as error:
                    raise log.append_failed(error) from error
                log.end_offset = batch.next_offset
                if batch.producer_id >= 0:
                    metadata = BatchMetadata(
                        batch.base_sequence,
                        batch.last_sequence,
                        batch.base_offset,
                        batch.last_offset,
                        batch.max_timestamp,
                    )
                    log.note_producer(
                        batch.producer_id, batch.producer_epoch, metadata, batch.attributes, marker, now_ms
                    )
            if log.end_offset == first and len(records) > 0:
                raise CorruptMessage(f"{log.name}: the leader sent {len(records)} bytes without a complete batch")
            return AppendResult(first, log.end_offset - 1, -1, log.log_start_offset, False, False, -1, log.generation)
