"""Appending as follower: the leader's batches are taken over as they are, offsets and epochs included.

Owner: PartitionLog. Sequences were checked by the leader; here they only become part of the producers' state. Source:
Kafka's replica fetcher.
"""

from __future__ import annotations

from streamactors.broker.errors import BrokerError, CorruptMessage
from streamactors.broker.log.log_append import AppendResult, LogAppend
from streamactors.broker.log.producer_state import BatchMetadata
from streamactors.broker.records.batch import iter_batches
from streamactors.broker.records.control import read_marker


class UnexpectedAppendOffset(BrokerError):
    """A follower was given batches that its log already has."""


class LogFollow(LogAppend):
    """The writing side of a follower's log."""

    __slots__ = ()

    def append_as_follower(self, records: memoryview, now_ms: int) -> AppendResult:
        """Append the leader's batches as they are, offsets and epochs included; a partial one at the end is left out.

        Raises CorruptMessage, UnexpectedAppendOffset (the log has these offsets already) and StorageError.
        """
        with self.lock:
            self._check_online()
            first = self.end_offset
            for batch in iter_batches(records):
                batch.ensure_valid()
                if batch.base_offset < self.end_offset or batch.last_offset_delta < 0:
                    raise UnexpectedAppendOffset(
                        f"{self.name}: the leader sent offsets {batch.base_offset}-{batch.last_offset}, "
                        f"the log ends at {self.end_offset}"
                    )
                marker = read_marker(batch) if batch.is_control else None
                if self.active.must_roll(batch.size, batch.last_offset, batch.max_timestamp, now_ms, self.config):
                    self._roll(now_ms, batch.base_offset)
                if batch.leader_epoch != self.epochs.latest:
                    self._assign_epoch(batch.leader_epoch, batch.base_offset)
                try:
                    self.active.append(batch.view(), batch.size, batch.last_offset, batch.max_timestamp)
                except OSError as error:
                    raise self._append_failed(error) from error
                self.end_offset = batch.next_offset
                if batch.producer_id >= 0:
                    metadata = BatchMetadata(
                        batch.base_sequence,
                        batch.last_sequence,
                        batch.base_offset,
                        batch.last_offset,
                        batch.max_timestamp,
                    )
                    self._note_producer(
                        batch.producer_id, batch.producer_epoch, metadata, batch.attributes, marker, now_ms
                    )
            if self.end_offset == first and len(records) > 0:
                raise CorruptMessage(f"{self.name}: the leader sent {len(records)} bytes without a whole batch")
            return AppendResult(
                first, self.end_offset - 1, -1, self.log_start_offset, False, False, -1, self.generation
            )
