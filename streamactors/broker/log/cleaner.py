"""Compaction: keep the latest record of each key, without moving an offset.

Owner: LogManager; `run_once` belongs on a thread of its own. A pass reads the dirty part of one log into a map from key to
latest offset, then writes closed segments anew with what that leaves, and swaps them in. It never touches the active
segment, nor anything at or beyond the last stable offset. Source: Kafka's LogCleaner.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from streamactors.broker.errors import CorruptMessage, StorageError
from streamactors.broker.log.checkpoint_text import CLEANED_POINTS
from streamactors.broker.log.cleaned_transactions import CleanedTransactions
from streamactors.broker.log.compaction import BatchFilter, LastOfProducer
from streamactors.broker.log.config import LONG_MAX
from streamactors.broker.log.data_folder import DataFolder
from streamactors.broker.log.log_core import logger
from streamactors.broker.log.offset_map import OffsetMap
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.log.scan import read_batch, walk_batches
from streamactors.broker.log.segment import Segment
from streamactors.broker.log.segment_files import CLEANED_SUFFIX, MAX_RELATIVE_OFFSET
from streamactors.broker.log.transaction_index import AbortedTransaction
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.records.record_reader import walk_records

Key = tuple[str, int]
DEDUPE_BYTES: Final = 120 << 20


class CleaningAborted(Exception):
    """The log was closed, deleted or truncated meanwhile; the pass is given up without a trace."""


class Round(NamedTuple):
    """One pass over one log: the closed segments up to where it may clean, held open."""

    log: PartitionLog
    segments: tuple[Segment, ...]
    aborted: tuple[tuple[AbortedTransaction, ...], ...]
    """Per segment, the aborted transactions that touch it."""
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
    """Finds the log that needs it most, and compacts it."""

    def __init__(
        self, logs: Callable[[], Iterable[PartitionLog]], data: DataFolder | None, *, dedupe_bytes: int = DEDUPE_BYTES
    ) -> None:
        self._logs = logs
        self._data = data
        self.dedupe_bytes = dedupe_bytes
        self._cleaned_to: dict[Key, int] = {}
        self._unreadable: set[Key] = set()

    def load(self) -> None:
        """Read how far each log was compacted."""
        if self._data is not None:
            self._cleaned_to = self._data.read_checkpoint(CLEANED_POINTS)

    def forget(self, topic: str, partition: int) -> None:
        """Take note that a log is gone."""
        self._cleaned_to.pop((topic, partition), None)
        self._unreadable.discard((topic, partition))

    def cleaned_to(self, log: PartitionLog) -> int:
        """The offset up to which the log has been compacted, and not cut back since."""
        key = log.topic, log.partition
        with log.lock:
            if log.cut_to < self._cleaned_to.get(key, 0):
                self._cleaned_to[key] = log.cut_to
            log.cut_to = LONG_MAX
            return self._cleaned_to.get(key, 0)

    def run_once(self, now_ms: int) -> bool:
        """Compact the log with the greatest dirty share, if any is due; return whether there was one.

        `now_ms` is epoch milliseconds. A log that cannot be read or written is logged and left alone."""
        best: tuple[float, PartitionLog] | None = None
        for log in self._logs():
            if log.config.compacts and log.configured and log.offline is None:
                if (log.topic, log.partition) in self._unreadable:
                    continue
                share = self._due_share(log, now_ms)
                if share > 0 and (best is None or share > best[0]):
                    best = share, log
        if best is None:
            return False
        return self.clean(best[1], now_ms)

    def _due_share(self, log: PartitionLog, now_ms: int) -> float:
        """Return the dirty share of the log's bytes if it is due for compaction, else 0."""
        planned = self._plan(log, now_ms)
        try:
            if not planned.dirty_bytes:
                return 0.0
            overdue = self._dirty_for_ms(planned, now_ms) > log.config.max_compaction_lag_ms
            return planned.dirty_ratio if overdue or planned.dirty_ratio > log.config.min_cleanable_dirty_ratio else 0.0
        finally:
            _let_go(planned)

    def _dirty_for_ms(self, planned: Round, now_ms: int) -> int:
        for segment in planned.segments:
            if segment.base_offset >= planned.first_dirty and segment.size:
                return now_ms - segment.earliest_timestamp()
        return 0

    def _plan(self, log: PartitionLog, now_ms: int) -> Round:
        config = log.config
        with log.lock:
            first_dirty = self.cleaned_to(log)
            if not log.log_start_offset <= first_dirty <= log.active.base_offset:
                first_dirty = log.log_start_offset
            end = min(log.active.base_offset, log.last_stable_offset)
            segments: list[Segment] = []
            for segment in log.segments[:-1]:
                young = (
                    config.min_compaction_lag_ms > 0
                    and segment.base_offset >= first_dirty
                    and segment.largest_timestamp() > now_ms - config.min_compaction_lag_ms
                )
                if log.next_base_offset(segment) > end or young:
                    end = segment.base_offset
                    break
                segments.append(segment)
            aborted = []
            for segment in segments:
                segment.log.hold()
                upper = log.next_base_offset(segment)
                aborted.append(tuple(log.aborted_transactions(segment.base_offset, upper)))
            dirty = sum(segment.size for segment in segments if log.next_base_offset(segment) > first_dirty)
            total = sum(segment.size for segment in segments)
            return Round(log, tuple(segments), tuple(aborted), first_dirty, end, log.generation, dirty, total)

    def clean(self, log: PartitionLog, now_ms: int) -> bool:
        """Compact what may be compacted of one log; return whether it was done."""
        planned = self._plan(log, now_ms)
        try:
            if planned.end <= planned.first_dirty:
                return False
            offsets = OffsetMap(self.dedupe_bytes)
            self._fill(offsets, planned)
            if offsets.latest_offset < planned.first_dirty:
                raise CorruptMessage(f"{log.name}: the keys of one batch do not fit into the cleaner's map")
            self._rewrite(offsets, planned, now_ms)
        except CleaningAborted:
            return False
        except (CorruptMessage, StorageError, OSError) as error:
            self._unreadable.add((log.topic, log.partition))
            logger.error("%s: compaction failed and is not tried again before a restart: %s", log.name, error)
            return False
        finally:
            _let_go(planned)
        self._cleaned_to[log.topic, log.partition] = offsets.latest_offset + 1
        self.cleaned_to(log)  # cut back while it was cleaned?
        if self._data is not None:
            self._data.write_checkpoint(CLEANED_POINTS, self._cleaned_to)
        log.forget_cut()
        return True

    def _fill(self, offsets: OffsetMap, planned: Round) -> None:
        """Read the dirty part into the map, as far as it has room for whole batches."""
        transactions = CleanedTransactions()
        for segment, aborted in zip(planned.segments, planned.aborted, strict=True):
            transactions.add_aborted(aborted)
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
                        key = payload[span.key_at : span.key_at + span.key_size]
                        if span.key_size >= 0 and not offsets.put(key, batch.base_offset + span.offset_delta):
                            return
                if batch.next_offset > planned.first_dirty:
                    offsets.latest_offset = batch.last_offset
        offsets.latest_offset = planned.end - 1

    def _rewrite(self, offsets: OffsetMap, planned: Round, now_ms: int) -> None:
        log = planned.log
        with log.lock:
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
        at = 0
        while at < last:
            count = _group(planned.segments[at:last], log.config.segment_bytes)
            group = planned.segments[at : at + count]
            cleaned = Segment.create(log.disk, log.directory, group[0].base_offset, log.config, now_ms, CLEANED_SUFFIX)
            try:
                transactions.index = cleaned.aborted
                for segment, aborted in zip(group, planned.aborted[at : at + count], strict=True):
                    transactions.add_aborted(aborted)
                    for batch in _batches(planned, segment):
                        kept = rules.retained(batch)
                        if kept is not None:
                            header = RecordBatch(kept)
                            cleaned.append(kept, len(kept), header.last_offset, header.max_timestamp)
                cleaned.close_for_append()
                cleaned.sync()
                log.disk.set_modified_ms(cleaned.log.path, log.disk.modified_ms(group[-1].log.path))
                if not log.replace_segments(group, cleaned, now_ms, planned.generation):
                    raise CleaningAborted
            except BaseException:
                cleaned.log.close()
                for path in cleaned.paths():
                    if path.name.endswith(CLEANED_SUFFIX):
                        log.disk.remove(path)
                raise
            at += count


def _batches(planned: Round, segment: Segment) -> Iterable[RecordBatch]:
    """Yield a held segment's batches, as long as the log is what it was."""
    for position, batch in walk_batches(segment.log, 0, segment.size):
        if len(batch.buffer) - batch.position < batch.size:
            batch = read_batch(segment.log, position, batch.size)  # a big one: only its header was read
        if planned.log.closed or planned.log.generation != planned.generation:
            raise CleaningAborted
        yield batch


def _group(segments: tuple[Segment, ...], max_bytes: int) -> int:
    """How many segments from the first on go into one new one: no larger than a segment may be."""
    size, count = segments[0].size, 1
    while count < len(segments):
        following = segments[count]
        size += following.size
        end = (
            segments[count + 1].base_offset
            if count + 1 < len(segments)
            else following.base_offset + MAX_RELATIVE_OFFSET
        )
        if size > max_bytes or end - segments[0].base_offset > MAX_RELATIVE_OFFSET:
            break
        count += 1
    return count


def _let_go(planned: Round) -> None:
    for segment in planned.segments:
        segment.log.release()
