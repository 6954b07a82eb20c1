"""Compaction: keep the latest record of each key, without moving an offset.

Owner: LogManager; call `run_once` on its own thread. A pass reads the dirty part of one log into a map from key to latest
offset, writes the retained records of closed segments to new segments, and swaps these in. It never touches the active segment
or records at or beyond the last stable offset, nor a log that is being copied to another data folder. Source: Kafka's LogCleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from streamactors.broker.errors import CorruptMessage, StorageError, StorageShortage
from streamactors.broker.log import logger
from streamactors.broker.log.checkpoint_text import CLEANED_POINTS
from streamactors.broker.log.cleaning.cleaned_transactions import CleanedTransactions
from streamactors.broker.log.cleaning.compaction import BatchFilter, LastOfProducer
from streamactors.broker.log.cleaning.offset_map import OffsetMap
from streamactors.broker.log.config import LONG_MAX
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.scan import read_batch, walk_batches
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import CLEANED_SUFFIX, MAX_RELATIVE_OFFSET
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.log.shortage import passes
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.record_reader import walk_records

Key = tuple[str, int]
DEDUPE_BYTES: Final = 120 << 20


class CleaningAborted(Exception):
    """The log was closed, deleted or truncated during the pass, or a copy of it was begun. The pass stops and changes nothing more."""


class Round(NamedTuple):
    """One pass over one log: the closed segments that may be cleaned."""

    log: PartitionLog
    segments: tuple[Segment, ...]
    first_dirty: int
    end: int
    """The first offset that may not be cleaned."""
    generation: int
    dirty_bytes: int
    total_bytes: int

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / self.total_bytes if self.total_bytes else 0.0


class Cleaner:
    """Finds the log with the greatest dirty share, and compacts it."""

    def __init__(
        self,
        logs: Callable[[], Iterable[PartitionLog]],
        folders: Sequence[DataFolder] | None,
        *,
        dedupe_bytes: int = DEDUPE_BYTES,
    ) -> None:
        self._logs = logs
        self._folders = folders or ()
        self.dedupe_bytes = dedupe_bytes
        # Entries of a log are added under its lock while it is not closed: deletion closes it, then calls `forget`.
        self._cleaned_to: dict[Key, int] = {}
        self._uncleanable: set[Key] = set()

    def load(self) -> None:
        """Read how far each log was compacted. Only the checkpoint of the folder that has the log counts: another folder may have an entry from
        before a move."""
        self._cleaned_to = {}
        for folder in self._folders:
            if folder.failure is not None:
                continue
            here = self._in_folder(folder)
            found = folder.read_checkpoint(CLEANED_POINTS)
            self._cleaned_to |= {key: offset for key, offset in found.items() if key in here}

    def _in_folder(self, folder: DataFolder) -> set[Key]:
        return {(each.topic, each.partition) for each in self._logs() if each.directory.parent == folder.path}

    def forget(self, topic: str, partition: int) -> None:
        """Forget a log that was deleted."""
        self._cleaned_to.pop((topic, partition), None)
        self._uncleanable.discard((topic, partition))

    def cleaned_to(self, log: PartitionLog) -> int:
        """Return the offset up to which the log is compacted, without records that a truncation removed since."""
        key = log.topic, log.partition
        with log.lock:
            if log.truncated_to < self._cleaned_to.get(key, 0):
                self._cleaned_to[key] = log.truncated_to
            log.truncated_to = LONG_MAX
            return self._cleaned_to.get(key, 0)

    def run_once(self, now_ms: int) -> bool:
        """Compact the due log with the greatest dirty share. Return whether a log was compacted.

        `now_ms` is epoch milliseconds. A failure is logged, and its log is not compacted again."""
        best: tuple[float, PartitionLog] | None = None
        for log in self._logs():
            if log.config.compacts and log.configured and log.offline is None and not log.is_copied:
                if (log.topic, log.partition) in self._uncleanable:
                    continue
                try:
                    share = self._due_share(log, now_ms)
                except (CorruptMessage, OSError) as error:
                    self._failed(log, error)
                    continue
                if share > 0 and (best is None or share > best[0]):
                    best = share, log
        if best is None:
            return False
        return self.clean(best[1], now_ms)

    def _due_share(self, log: PartitionLog, now_ms: int) -> float:
        """Return the dirty share of the log's bytes if it is due for compaction, else 0."""
        with log.lock:
            planned = self._plan(log, now_ms)
            if not planned.dirty_bytes:
                return 0.0
            overdue = self._dirty_for_ms(planned, now_ms) > log.config.max_compaction_lag_ms
            return planned.dirty_ratio if overdue or planned.dirty_ratio > log.config.min_cleanable_dirty_ratio else 0.0

    def _dirty_for_ms(self, planned: Round, now_ms: int) -> int:
        for segment in planned.segments:
            if segment.base_offset >= planned.first_dirty and segment.size:
                return now_ms - segment.earliest_timestamp()
        return 0

    def _plan(self, log: PartitionLog, now_ms: int) -> Round:
        """Choose the segments of a pass. The caller holds the log's lock."""
        config = log.config
        first_dirty = self.cleaned_to(log)
        if not log.log_start_offset <= first_dirty <= log.active.base_offset:
            first_dirty = log.log_start_offset
        end = min(log.active.base_offset, log.last_stable_offset)
        segments: list[Segment] = []
        dirty = 0
        for segment in log.segments[:-1]:
            young = (
                config.min_compaction_lag_ms > 0
                and segment.base_offset >= first_dirty
                and segment.largest_timestamp() > now_ms - config.min_compaction_lag_ms
            )
            segment_end = log.next_base_offset(segment)
            if segment_end > end or young:
                end = segment.base_offset
                break
            segments.append(segment)
            dirty += segment.size if segment_end > first_dirty else 0
        total = sum(segment.size for segment in segments)
        return Round(log, tuple(segments), first_dirty, end, log.generation, dirty, total)

    @contextmanager
    def held(self, log: PartitionLog, now_ms: int) -> Iterator[Round]:
        """Plan a pass and hold the files of its segments open. Raises OSError."""
        with ExitStack() as holds:
            with log.lock:
                planned = self._plan(log, now_ms)
                for segment in planned.segments:
                    segment.log.descriptor()  # Opened under the lock, because the file name may be removed later.
                    segment.log.hold()
                    holds.callback(segment.log.release)
            yield planned

    def clean(self, log: PartitionLog, now_ms: int) -> bool:
        """Compact one log as far as possible, unless it is being copied. Return whether anything was compacted."""
        if log.is_copied:
            return False
        try:
            with self.held(log, now_ms) as planned:
                if planned.end <= planned.first_dirty:
                    return False
                offsets = OffsetMap(self.dedupe_bytes)
                self._fill(offsets, planned)
                self._rewrite(offsets, planned, now_ms)
        except CleaningAborted:
            return False
        except (CorruptMessage, StorageError, OSError) as error:
            self._failed(log, error)
            return False
        with log.lock:
            if log.closed:
                return False
            self._cleaned_to[log.topic, log.partition] = offsets.latest_offset + 1
            self.cleaned_to(log)  # The log may have been truncated during the pass.
        try:
            self._save(log)
            log.forget_truncation()
        except OSError as error:  # the next pass saves how far it was; until then a restart compacts again
            if not passes(log.folder.note(error)):
                logger.error("%s: cannot save how far it is compacted: %s", log.name, error)
        return True

    def _save(self, log: PartitionLog) -> None:
        """Write the checkpoint of the folder that has this log. Raises OSError."""
        for folder in self._folders:
            if folder.path == log.directory.parent and folder.failure is None:
                here = self._in_folder(folder)
                cleaned_to = {key: offset for key, offset in self._cleaned_to.copy().items() if key in here}
                folder.write_checkpoint(CLEANED_POINTS, cleaned_to)

    def _failed(self, log: PartitionLog, error: Exception) -> None:
        """Mark the log as uncleanable, unless the error is temporary: then the next turn tries again. An error of a log that was closed or deleted
        meanwhile is ignored."""
        if isinstance(error, StorageShortage) or (isinstance(error, OSError) and passes(log.folder.note(error))):
            return
        with log.lock:
            if log.closed:
                return
            self._uncleanable.add((log.topic, log.partition))
        logger.error("%s: compaction failed and is not tried again before a restart: %s", log.name, error)

    def _fill(self, offsets: OffsetMap, planned: Round) -> None:
        """Read the dirty part into the map, as long as its records fit. The next pass begins at the first one that does not."""
        transactions = CleanedTransactions()
        for segment in planned.segments:
            transactions.add_aborted(_aborted_in(planned, segment))
            for batch in _batches(planned, segment):
                if batch.base_offset >= planned.end:
                    break
                if batch.is_control:
                    transactions.marker_is_idle(batch)
                elif (
                    not transactions.data_was_aborted(batch) and batch.next_offset > planned.first_dirty and batch.count
                ):
                    payload = batch.payload()
                    for span in walk_records(payload, batch.count):
                        offset = batch.base_offset + span.offset_delta
                        if span.key_size < 0 or offset < planned.first_dirty:
                            continue
                        if not offsets.put(payload[span.key_at : span.key_at + span.key_size], offset):
                            offsets.latest_offset = offset - 1
                            return
                if batch.next_offset > planned.first_dirty:
                    offsets.latest_offset = batch.last_offset
        offsets.latest_offset = planned.end - 1

    def _rewrite(self, offsets: OffsetMap, planned: Round, now_ms: int) -> None:
        log = planned.log
        with log.lock:
            log.mark_compacted()  # recovery must know that offsets may be missing; the mark may have failed before
            producers = {
                entry.producer_id: LastOfProducer(entry.last_offset, entry.producer_epoch)
                for entry in log.producer_state.entries.values()
            }
        transactions = CleanedTransactions()
        rules = BatchFilter(
            offsets,
            transactions,
            producers,
            end_of_round=planned.end,
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
        )
        last = next(
            (i for i, segment in enumerate(planned.segments) if segment.base_offset > offsets.latest_offset),
            len(planned.segments),
        )
        end = planned.segments[last].base_offset if last < len(planned.segments) else planned.end
        at = 0
        while at < last:
            count = _group(planned.segments[at:last], end, log.config.segment_bytes)
            group = planned.segments[at : at + count]
            cleaned = Segment.create(log.disk, log.directory, group[0].base_offset, log.config, now_ms, CLEANED_SUFFIX)
            try:
                transactions.index = cleaned.aborted
                for segment in group:
                    transactions.add_aborted(_aborted_in(planned, segment))
                    for batch in _batches(planned, segment):
                        kept = rules.retained(batch)
                        if kept is not None:
                            header = RecordBatch(kept)
                            cleaned.append(kept, len(kept), header.last_offset, header.max_timestamp)
                cleaned.close_for_append()
                cleaned.sync()
                log.disk.set_modified_ms(cleaned.log.path, log.disk.modified_ms(group[-1].log.path))
                if not log.trim.replace_segments(group, cleaned, now_ms, planned.generation):
                    raise CleaningAborted
            except BaseException:
                cleaned.log.close()
                for path in cleaned.paths():
                    if path.name.endswith(CLEANED_SUFFIX):
                        log.disk.remove(path)
                raise
            at += count


def _batches(planned: Round, segment: Segment) -> Iterable[RecordBatch]:
    """Yield the batches of a held segment. Raises CleaningAborted if the log was closed or truncated, or is copied."""
    for position, batch in walk_batches(segment.log, 0, segment.size):
        if len(batch.buffer) - batch.position < batch.size:
            batch = read_batch(segment.log, position, batch.size)  # Only the header of a big batch was read.
        if planned.log.closed or planned.log.is_copied or planned.log.generation != planned.generation:
            raise CleaningAborted
        yield batch


def _aborted_in(planned: Round, segment: Segment) -> list[AbortedTransaction]:
    """Return the aborted transactions that touch a segment of the pass. Raises OSError."""
    log = planned.log
    with log.lock:
        if log.closed or segment not in log.segments:
            raise CleaningAborted
        return log.reader.aborted_transactions(segment.base_offset, log.next_base_offset(segment))


def _group(segments: tuple[Segment, ...], end: int, max_bytes: int) -> int:
    """Return how many of the first segments fit into one new segment of at most `max_bytes`.

    `end` is the offset after the last segment."""
    size, count = segments[0].size, 1
    while count < len(segments):
        size += segments[count].size
        group_end = segments[count + 1].base_offset if count + 1 < len(segments) else end
        if size > max_bytes or group_end - 1 - segments[0].base_offset > MAX_RELATIVE_OFFSET:
            break
        count += 1
    return count
