"""The state that the parts of one partition's log share: offsets, settings, epochs, producers, and the offline flag.

Owner: PartitionLog. Each log has one lock, held for microseconds: never during a sync, a compaction or a deletion. Any
thread may read the attributes; callers of methods hold the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from streamactors.broker.errors import StorageError, StorageShortage
from streamactors.broker.log import logger
from streamactors.broker.log.config import LONG_MAX, LogConfig
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.partition.log_folder import LogFolder
from streamactors.broker.log.partition.log_loader import LoadedLog
from streamactors.broker.log.producers.producer_state import BatchMetadata
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_list import SegmentList
from streamactors.broker.log.shortage import passes
from streamactors.broker.records.control import EndTransactionMarker
from streamactors.broker.records.header import CONTROL, TRANSACTIONAL

T = TypeVar("T")


def _nothing() -> Any:
    return None


class LogCore:
    """State that the parts of a log read and change. Slots save two kilobytes per log and half of the attribute access time."""

    __slots__ = (
        "closed",
        "config",
        "configured",
        "deleted",
        "end_offset",
        "epochs",
        "first_unstable",
        "folder",
        "generation",
        "high_watermark",
        "is_copied",
        "lock",
        "log_start_offset",
        "offline",
        "partition",
        "producer_state",
        "recovery_point",
        "request_flush",
        "segment_list",
        "sole_replica",
        "topic",
        "truncated_to",
    )

    request_flush: Callable[[], None]
    """Requests a flush without waiting for it."""

    def __init__(
        self, topic: str, partition: int, folder: LogFolder, config: LogConfig, loaded: LoadedLog, high_watermark: int
    ) -> None:
        self.lock = threading.RLock()
        self.topic = topic
        self.partition = partition
        self.folder = folder
        self.config = config
        self.configured = False
        """Whether the topic's own settings are known. Retention waits for them: it never acts on the defaults."""
        self.segment_list = SegmentList(loaded.segments, folder, self.lock)
        self.epochs = loaded.epochs
        self.producer_state = loaded.producers
        self.log_start_offset = max(loaded.log_start_offset, loaded.segments[0].base_offset)
        self.end_offset = loaded.end_offset
        """Offset of the next record (LEO)."""
        self.recovery_point = loaded.recovery_point
        """Everything below this offset is on the disk."""
        self.high_watermark = min(max(high_watermark, self.log_start_offset), self.end_offset)
        self.first_unstable = loaded.producers.first_unstable()
        """First offset of an open transaction, None without one."""
        self.sole_replica = False
        """No other replica is in sync: the high watermark follows each append up to `hw_limit`."""
        self.generation = 0
        """Grows with every truncation. An offset returned under an older generation may now belong to another record."""
        self.truncated_to = LONG_MAX
        """The least offset that the log was truncated to since the cleaner last looked. The cleaner resets it."""
        self.is_copied = False
        """The log moves to another data folder: a copy is being made. Compaction waits, because the copy may have a record whose tombstone
        it does not have yet."""
        self.offline: StorageError | None = None
        """The reason why appends are refused until a restart recovers the log, None if they are not. Reads still work. A temporary error does
        not set it: the next call tries again."""
        self.closed = False
        self.deleted = False

    @property
    def name(self) -> str:
        """Topic and partition, as in the folder's name."""
        return f"{self.topic}-{self.partition}"

    @property
    def last_stable_offset(self) -> int:
        """Upper bound of read_committed: the first offset of an open transaction, at most the high watermark and at least
        the log start (which can pass the transaction's first record)."""
        first = self.first_unstable
        if first is None or first > self.high_watermark:
            return self.high_watermark
        return max(first, self.log_start_offset)

    def check_online(self) -> None:
        """Raise StorageError if the log is offline."""
        if self.offline is not None:
            raise StorageError(str(self.offline))

    def disk_failed(self, doing: str, error: OSError, *, lasts: bool = False) -> StorageError:
        """Return the error to raise. Refuse appends from now on, unless the error of the disk is temporary. `lasts` means that it is not."""
        if self.folder.failed(error):
            failed = f"{self.name}: cannot {doing}: {error.strerror or error}; the data folder {self.folder.path.parent} has failed"
            self.offline = self.offline or StorageError(failed)
            return StorageError(failed)
        if passes(error) and not lasts:
            return StorageShortage(
                f"{self.name}: cannot {doing}: {error.strerror or error} ({self.folder.path}); the next call tries again"
            )
        failure = StorageError(
            f"{self.name}: cannot {doing}: {error.strerror or error} ({self.folder.path}); "
            "the partition is offline for writes, reads still work; repair the disk and restart the broker"
        )
        if self.offline is None:
            self.offline = failure
            logger.error("%s", failure)
        return failure

    def shut(self, why: str) -> None:
        """Refuse appends from now on because the log is closed or deleted."""
        self.closed = True
        self.offline = self.offline or StorageError(f"{self.name}: the log {why}")

    def assign_epoch(self, epoch: int, start_offset: int, like: LogFolder | None = None) -> None:
        """Record that the epoch begins at the offset. Raises StorageError, and then the epochs are as before."""
        changed = self.epochs.copy()
        if changed.assign(epoch, start_offset):
            self.use_epochs(changed, like)

    def use_epochs(self, epochs: LeaderEpochs, like: LogFolder | None = None) -> None:
        """Write other leader epochs, and use them. Raises StorageError, and then the epochs are as before.

        A batch of an epoch that is not on the disk would count as damage after a crash."""
        try:
            self.folder.save_epochs(epochs, like)
        except OSError as error:
            raise self.disk_failed("write the leader epochs", error) from error
        self.epochs = epochs

    def mark_compacted(self) -> None:
        """Mark the folder as compacted if cleanup.policy says so. Raises StorageError."""
        if self.config.compacts and self.offline is None:
            try:
                self.folder.mark_compacted()
            except OSError as error:
                raise self.disk_failed("mark the folder as compacted", error) from error

    def note_truncation(self, end: int) -> None:
        """Save that the log is truncated to the offset. Raises OSError."""
        self.truncated_to = min(self.truncated_to, end)
        self.folder.save_truncation(self.truncated_to)

    def note_producer(
        self,
        producer_id: int,
        producer_epoch: int,
        batch: BatchMetadata,
        attributes: int,
        marker: EndTransactionMarker | None,
        now_ms: int,
    ) -> None:
        """Add a written batch to the producer state and the transaction index."""
        producers = self.producer_state
        if not attributes & CONTROL:
            producers.append(producer_id, producer_epoch, batch, bool(attributes & TRANSACTIONAL), now_ms)
        elif marker is not None:
            aborted = producers.append_marker(
                producer_id,
                producer_epoch,
                marker.coordinator_epoch,
                marker.committed,
                batch.last_offset,
                batch.timestamp,
                now_ms,
            )
            if aborted is not None:
                self.segment_list.active.aborted.append(aborted)
        producers.end_offset = self.end_offset
        if attributes & TRANSACTIONAL:
            self.first_unstable = producers.first_unstable()

    def append_failed(self, error: OSError) -> StorageError:
        """Remove a partly written batch and return the error to raise."""
        active = self.segment_list.active
        try:
            active.log.truncate(active.size)  # If this fails, the next append writes over it, or recovery removes it.
        except OSError:
            pass
        return self.disk_failed("append", error)

    def set_high_watermark(self, offset: int) -> None:
        """Set the high watermark to a greater offset."""
        self.high_watermark = offset
        if self.first_unstable is not None:
            self.producer_state.high_watermark_moved(offset)
            self.first_unstable = self.producer_state.first_unstable()

    def condemn(
        self, segments: list[Segment], now_ms: int, then: Callable[[], T] = _nothing, *, keep_snapshot: int = -1
    ) -> T:
        """Mark the segments' files for removal after file.delete.delay.ms, and return what `then` returns. Raises OSError: see
        `SegmentList.condemn`."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        return self.segment_list.condemn(segments, due_ms, then, keep_snapshot=keep_snapshot)

    def begin_segment(self, now_ms: int, base_offset: int) -> Segment:
        """Close the active segment and begin the next one at the offset, which is the log end or greater.

        Raises StorageError, and then the log is as before. An empty active segment that begins at this offset stays."""
        files, folder = self.segment_list, self.folder
        old = files.active
        if old.size == 0 and old.base_offset == base_offset:
            return old
        try:
            old.close_for_append()
            folder.save_producers(self.producer_state, self.end_offset)
            fresh = Segment.create(folder.disk, folder.path, base_offset, self.config, now_ms)
            folder.changed = True
            if old.size == 0:  # The follower's log begins elsewhere, or a truncation left the segment empty.
                try:
                    self.condemn([old], now_ms)
                except OSError:
                    folder.disk.remove(fresh.log.path)
                    raise
        except OSError as error:
            raise self.disk_failed("begin a new segment", error) from error
        if old.size == 0:
            files.replace([*files.all[:-1], fresh])
            self.log_start_offset = max(self.log_start_offset, files.bases[0])
        else:
            old.unload_indexes()
            files.replace([*files.all, fresh])
        self.request_flush()  # Bring the closed segment to the disk.
        return fresh
