"""Recovery of a segment: walk its batches, keep what is whole and right, and make again what is derived from them.

Owner: the loader, before anybody else has the log. A batch ends the log if it is cut off, if its CRC is wrong, or if the
parts of its header that no CRC covers contradict what is known: its offset must follow the batch before (only compaction
leaves gaps), and its leader epoch must be the one that the epochs on disk give for that offset (an epoch is on disk before
its first batch). Source: Kafka's LogSegment.recover, which looks at size and CRC alone.
"""

from __future__ import annotations

from typing import NamedTuple

from crc32c import crc32c

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.files import LogFile
from streamactors.broker.log.leader_epochs import LeaderEpochs
from streamactors.broker.log.producer_replay import note_batch
from streamactors.broker.log.producer_state import ProducerState
from streamactors.broker.log.scan import WALK_BYTES, walk_batches
from streamactors.broker.log.segment import Segment
from streamactors.broker.log.segment_files import MAX_RELATIVE_OFFSET
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.header import ATTRIBUTES_AT, MAGIC


class Recovered(NamedTuple):
    """How far a segment is good: the position and the offset after its last good batch, and what is wrong after it."""

    position: int
    next_offset: int
    damage: str | None


class BatchChecker:
    """What a batch must be to follow the ones before it."""

    def __init__(self, epochs: LeaderEpochs, *, learn_epochs: bool, gaps: bool) -> None:
        self.epochs = epochs
        self._learn_epochs = learn_epochs
        self.gaps = gaps

    def complaint(self, batch: RecordBatch, expected_offset: int, limit: int) -> str | None:
        """Return what is wrong with a batch that should continue at `expected_offset` and end before `limit`."""
        if batch.last_offset_delta < 0 or batch.count > batch.last_offset_delta + 1:
            return f"{batch.count} records in {batch.last_offset_delta + 1} offsets"
        if batch.base_offset < expected_offset or batch.next_offset > limit:
            return f"offsets {batch.base_offset}-{batch.last_offset} outside {expected_offset}-{limit - 1}"
        if batch.base_offset > expected_offset and not self.gaps:
            return f"offset {batch.base_offset} where {expected_offset} follows"
        if not self._learn_epochs:
            if self.epochs.contradicts(batch.leader_epoch, batch.base_offset):
                return f"leader epoch {batch.leader_epoch}, which never wrote there"
        elif batch.leader_epoch < self.epochs.latest:
            return f"leader epoch {batch.leader_epoch} after {self.epochs.latest}"
        return None

    def accept(self, batch: RecordBatch) -> None:
        if self._learn_epochs:
            self.epochs.assign(batch.leader_epoch, batch.base_offset)


def recover_segment(
    segment: Segment, producers: ProducerState, checker: BatchChecker, limit: int | None, now_ms: int
) -> Recovered:
    """Make the segment's indexes again and take its batches into the producer state, as far as they are good.

    `limit` is the offset at which the next segment begins. Nothing is cut off here."""
    limit = segment.base_offset + MAX_RELATIVE_OFFSET + 1 if limit is None else limit
    segment.reset_indexes()
    position, expected = 0, segment.base_offset
    before_gap: tuple[int, int] | None = None  # where the batch before began, if there was a gap before it
    damage: str | None = None
    try:
        for at, batch in walk_batches(segment.log, 0, segment.size):
            damage = checker.complaint(batch, expected, limit)
            if damage and before_gap is not None and batch.base_offset < expected:
                # the batch before claimed an offset too high for this one to follow: the damage is there
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
        damage = "the last batch is cut off"
    return Recovered(position, expected, damage)


def _has_right_crc(file: LogFile, position: int, batch: RecordBatch) -> bool:
    """Whether the CRC is right; a batch of which only the header was read is not taken into memory for it."""
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
