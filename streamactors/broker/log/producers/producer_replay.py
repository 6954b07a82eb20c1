"""Rebuilds producer state from the disk: the latest snapshot, then the batches after it.

Owner: recovery and truncation, under the log's lock. Only batch headers are read, except for control batches.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from streamactors.broker.log.disk import Disk
from streamactors.broker.log.producers.producer_snapshot import load_snapshot
from streamactors.broker.log.producers.producer_state import BatchMetadata, ProducerState
from streamactors.broker.log.segments.scan import read_batch, walk_headers
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.control import read_marker


def note_batch(producers: ProducerState, batch: RecordBatch, now_ms: int) -> AbortedTransaction | None:
    """Add a stored batch to the state without checks. A control batch must be complete in memory.

    Returns the transaction that the batch aborted, if any."""
    producers.end_offset = batch.next_offset
    if batch.producer_id < 0:
        return None
    if not batch.is_control:
        metadata = BatchMetadata(
            batch.base_sequence, batch.last_sequence, batch.base_offset, batch.last_offset, batch.max_timestamp
        )
        producers.append(batch.producer_id, batch.producer_epoch, metadata, batch.is_transactional, now_ms)
        return None
    marker = read_marker(batch)
    if marker is None:
        return None
    return producers.append_marker(
        batch.producer_id,
        batch.producer_epoch,
        marker.coordinator_epoch,
        marker.committed,
        batch.last_offset,
        batch.max_timestamp,
        now_ms,
    )


def replay_segment(producers: ProducerState, segment: Segment, end_offset: int, now_ms: int) -> None:
    """Add the segment's batches from the end of the state up to the offset."""
    position = segment.position_of(producers.end_offset)[0]
    for at, header in walk_headers(segment.log, position, segment.size):
        if header.base_offset >= end_offset:
            return
        batch = read_batch(segment.log, at, header.size) if header.is_control else header
        note_batch(producers, batch, now_ms)


def find_aborted(disk: Disk, directory: Path, segments: Sequence[Segment], index: int) -> list[AbortedTransaction]:
    """Return the transactions whose abort marker is in the segment, found by reading its batches. Raises OSError.

    Their first offsets may lie in earlier segments, so the producer state at the segment's base is loaded first."""
    segment, start = segments[index], segments[0].base_offset
    base = segment.base_offset
    producers = load_producers(disk, directory, segments[:index], start, base, -1, base)
    found = []
    for at, header in walk_headers(segment.log, 0, segment.size):
        batch = read_batch(segment.log, at, header.size) if header.is_control else header
        aborted = note_batch(producers, batch, -1)
        if aborted is not None:
            found.append(aborted)
    return found


def load_producers(
    disk: Disk,
    directory: Path,
    segments: Sequence[Segment],
    log_start_offset: int,
    end_offset: int,
    now_ms: int,
    high_watermark: int,
) -> ProducerState:
    """Return the state of the producers as of the end offset."""
    snapshot_offset, entries = load_snapshot(disk, directory, at_least=log_start_offset, at_most=end_offset)
    producers = ProducerState(entries, snapshot_offset, now_ms)
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if is_last or segments[index + 1].base_offset > producers.end_offset:
            replay_segment(producers, segment, end_offset, now_ms)
    producers.end_offset = end_offset
    producers.high_watermark_moved(high_watermark)
    return producers
