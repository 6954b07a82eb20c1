"""Recovery of a segment: check its batches, keep the valid ones, and rebuild indexes and producer state.

Owner: the loader, before the log is shared. The log ends before a batch that is incomplete, that has a wrong CRC, or whose
header fields outside the CRC are implausible: its offset must follow the previous batch (only compaction leaves gaps), and its
leader epoch must match the epochs on disk (an epoch is on disk before its first batch). Apache Kafka may write an epoch later than its batches:
in its folders the epoch of a batch is at least that of the batch before, and epochs that the file does not have are added.
Source: Kafka's LogSegment.recover, which checks only size and CRC.
"""

from __future__ import annotations

from typing import NamedTuple

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.disk import LogFile
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.producers.producer_replay import note_batch
from streamactors.broker.log.producers.producer_state import ProducerState
from streamactors.broker.log.segments.scan import WALK_BYTES, walk_batches
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import MAX_RELATIVE_OFFSET
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.checksum import crc32c
from streamactors.broker.records.header import ATTRIBUTES_AT, MAGIC


class Recovered(NamedTuple):
    """Position and offset after the last valid batch of a segment, and the damage after it."""

    position: int
    next_offset: int
    damage: str | None


class BatchChecker:
    """Checks that a batch can follow the previous batches."""

    def __init__(self, epochs: LeaderEpochs, *, learn_epochs: bool, gaps: bool) -> None:
        self.epochs = epochs
        self._learn_epochs = learn_epochs
        self._last_epoch: int | None = None  # of the batch before, when epochs are learnt
        self.gaps = gaps

    def complaint(self, batch: RecordBatch, expected_offset: int, limit: int) -> str | None:
        """Return the damage of a batch that should begin at `expected_offset` and end before `limit`, None if it is valid."""
        if batch.last_offset_delta < 0 or batch.count > batch.last_offset_delta + 1:
            return f"{batch.count} records in {batch.last_offset_delta + 1} offsets"
        if batch.base_offset < expected_offset or batch.next_offset > limit:
            return f"offsets {batch.base_offset}-{batch.last_offset} outside {expected_offset}-{limit - 1}"
        if batch.base_offset > expected_offset and not self.gaps:
            return f"offset {batch.base_offset} where {expected_offset} follows"
        if not self._learn_epochs:
            if self.epochs.contradicts(batch.leader_epoch, batch.base_offset):
                return f"leader epoch {batch.leader_epoch}, which never wrote there"
            return None
        # The file may have the epochs of later batches already: the last one of the file does not constrain this batch.
        before = self.epochs.at(expected_offset - 1) if self._last_epoch is None else self._last_epoch
        return f"leader epoch {batch.leader_epoch} after {before}" if batch.leader_epoch < before else None

    def accept(self, batch: RecordBatch) -> None:
        """Note a valid batch."""
        if self._learn_epochs:
            self._last_epoch = batch.leader_epoch
            if batch.leader_epoch > self.epochs.latest:
                self.epochs.assign(batch.leader_epoch, batch.base_offset)


def recover_segment(
    segment: Segment, producers: ProducerState, checker: BatchChecker, limit: int | None, now_ms: int
) -> Recovered:
    """Rebuild the segment's indexes and add its valid batches to the producer state.

    `limit` is the base offset of the next segment. The file is not truncated here."""
    limit = segment.base_offset + MAX_RELATIVE_OFFSET + 1 if limit is None else limit
    segment.reset_indexes()
    position, expected = 0, segment.base_offset
    before_gap: tuple[int, int] | None = None  # where the previous batch began, if a gap precedes it
    damage: str | None = None
    try:
        for at, batch in walk_batches(segment.log, 0, segment.size):
            damage = checker.complaint(batch, expected, limit)
            if damage and before_gap is not None and batch.base_offset < expected:
                # The previous batch has an offset too high for this one to follow: that batch is damaged.
                return Recovered(*before_gap, damage)
            if damage is None and not _has_right_crc(segment.log, at, batch):
                damage = f"CRC of the batch at offset {batch.base_offset}"
            if damage:
                break
            before_gap = (at, expected) if batch.base_offset > expected else None
            checker.accept(batch)
            segment.note(at, batch.size, batch.last_offset, batch.max_timestamp)
            aborted = note_batch(producers, batch, now_ms)
            if aborted is not None:
                segment.aborted.append(aborted)
            position, expected = at + batch.size, batch.next_offset
    except CorruptMessage as error:
        damage = str(error)
    if damage is None and position < segment.size:
        damage = "the last batch is incomplete"
    return Recovered(position, expected, damage)


def _has_right_crc(file: LogFile, position: int, batch: RecordBatch) -> bool:
    """Whether the CRC is right. A batch that is not in memory is read in pieces."""
    if len(batch.buffer) - batch.position >= batch.size:
        return batch.magic == MAGIC and crc32c(batch.view()[ATTRIBUTES_AT:]) == batch.crc
    crc, at, end = 0, position + ATTRIBUTES_AT, position + batch.size
    while at < end:
        chunk = file.read_at(min(WALK_BYTES, end - at), at)
        if not chunk:
            return False
        crc = crc32c(chunk, crc)
        at += len(chunk)
    return batch.magic == MAGIC and not batch.is_control and crc == batch.crc
