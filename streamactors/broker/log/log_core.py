"""What all parts of a partition's log share: its state, its lock, its segments, and going offline.

Owner: PartitionLog, which is made of this and of the parts for appending, reading, trimming and flushing. One lock per
log, held for microseconds: never for a sync, a compaction or a deletion.
"""

from __future__ import annotations

import logging
import threading
import uuid
from bisect import bisect_right
from pathlib import Path
from typing import Final

from streamactors.broker.errors import StorageError
from streamactors.broker.log.config import LONG_MAX, LogConfig
from streamactors.broker.log.files import Disk
from streamactors.broker.log.leader_epochs import FILE_NAME as LEADER_EPOCHS
from streamactors.broker.log.leader_epochs import LeaderEpochs
from streamactors.broker.log.producer_snapshot import encode_snapshot
from streamactors.broker.log.producer_state import ProducerState
from streamactors.broker.log.segment import Segment
from streamactors.broker.log.segment_files import DELETED_SUFFIX, snapshot_path

logger = logging.getLogger("streamactors.broker.log")

BOUNDARIES: Final = 64

COMPACTED: Final = ".compacted"
"""A file in the folder of a log that is, or was, compacted. It holds the offset that the log was cut back to, if that was
after the cleaner looked last."""


class LogCore:
    """State of one partition's log. Attributes without an underscore may be read from any thread.

    All that the parts keep is listed here: classes that are put together cannot each have slots, and without them a log
    takes two kilobytes more and its attributes twice as long."""

    __slots__ = (
        "_bases",
        "_boundaries",
        "_condemned",
        "_directory_dirty",
        "_failures",
        "_flush_from",
        "_found_in_order",
        "_owed_from",
        "_owed_to",
        "_stamps",
        "_unsynced",
        "_walks",
        "active",
        "closed",
        "closed_in_order",
        "config",
        "configured",
        "cut_to",
        "deleted",
        "directory",
        "disk",
        "end_offset",
        "epochs",
        "first_unstable",
        "flusher",
        "generation",
        "high_watermark",
        "lock",
        "log_start_offset",
        "offline",
        "partition",
        "producer_state",
        "recovery_point",
        "segments",
        "sole_replica",
        "topic",
        "topic_id",
    )

    def __init__(
        self,
        *,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        segments: list[Segment],
        producers: ProducerState,
        epochs: LeaderEpochs,
        log_start_offset: int,
        end_offset: int,
        recovery_point: int,
        high_watermark: int,
    ) -> None:
        self.lock = threading.RLock()
        for segment in segments:
            segment.log.guard = self.lock
        self.disk = disk
        self.directory = directory
        self.topic = topic
        self.partition = partition
        self.topic_id = topic_id
        self.segments = segments
        self.active = segments[-1]
        self.producer_state = producers
        self.epochs = epochs
        self.log_start_offset = max(log_start_offset, segments[0].base_offset)
        self.end_offset = end_offset
        """The offset that the next record gets (LEO)."""
        self.recovery_point = recovery_point
        """Everything below it is on the disk."""
        self.high_watermark = min(max(high_watermark, self.log_start_offset), end_offset)
        self.offline: StorageError | None = None
        """Why appends are refused; reads go on. A restart recovers."""
        self.generation = 0
        """Grows with every truncation: offsets handed out before may mean other records since."""
        self.cut_to = LONG_MAX
        """The least offset that the log was cut back to; the cleaner, which must look at what came since, resets it."""
        self.first_unstable = producers.first_unstable()
        self.closed = False
        self.deleted = False
        self.configured = False
        """Whether the topic's own settings are known: before, nothing is deleted by the defaults."""
        self._bases = [segment.base_offset for segment in segments]
        self._condemned: list[tuple[int, Segment]] = []
        # offset -> position where its batch begins, of places in the active segment where reads and flushes ended
        self._boundaries: dict[int, int] = {}
        self._directory_dirty = True
        self._unsynced: set[Path] = set()  # small files that the next flush must sync
        self.sole_replica = False
        """No other broker has a copy to wait for: the high watermark follows each append as far as `hw_limit`."""
        self.closed_in_order = False
        """Everything was on the disk when the log was closed."""
        self._found_in_order: tuple[int, ...] = ()
        self._failures = 0  # flushes that failed, one after the other
        self._flush_from = end_offset  # records from here on count towards flush.messages
        self._owed_from = 0  # first offset whose required flush has not happened; == _owed_to: none is owed
        self._owed_to = 0
        self._apply_config(config)

    def _apply_config(self, config: LogConfig) -> None:
        self.config = config
        self._stamps = config.message_timestamp_type == "LogAppendTime"
        self._walks = config.compacts or config.record_validation == "full"

    def update_config(self, config: LogConfig) -> None:
        """Take up other settings, from the next call on."""
        with self.lock:
            self._apply_config(config)
            self.configured = True
            self._mark_compacted()

    def _mark_compacted(self) -> None:
        """Leave word, for recovery, that this log's offsets may have gaps from now on."""
        path = self.directory / COMPACTED
        if self.config.compacts and self.offline is None and not self.disk.exists(path):
            try:
                self.disk.write(path, b"")
            except OSError as error:
                raise self._go_offline("note that it is compacted", error) from error
            self._unsynced.add(path)
            self._directory_dirty = True

    def _note_cut(self, end: int) -> None:
        """Leave word for the cleaner, of after a restart too, that what it did from the offset on is gone. Raises OSError."""
        self.cut_to = min(self.cut_to, end)
        path = self.directory / COMPACTED
        if self.disk.exists(path):
            self.disk.write(path, b"%d" % self.cut_to)
            self._unsynced.add(path)

    def forget_cut(self) -> None:
        """The cleaner has taken note of every cut, for good. Raises OSError."""
        with self.lock:
            path = self.directory / COMPACTED
            if self.cut_to == LONG_MAX and self.disk.exists(path) and self.disk.size(path):
                self.disk.write(path, b"")

    @property
    def name(self) -> str:
        """Topic and partition, as in the folder's name."""
        return f"{self.topic}-{self.partition}"

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        with self.lock:
            return sum(segment.size for segment in self.segments)

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch that wrote here, -1 if none did."""
        return self.epochs.latest

    @property
    def last_stable_offset(self) -> int:
        """How far read_committed may read: the high watermark, or the first record of an open transaction."""
        first = self.first_unstable
        return self.high_watermark if first is None or first > self.high_watermark else first

    def next_base_offset(self, segment: Segment) -> int:
        """Where the segment after this one begins, or the log's end. Under the lock."""
        return self._segment_end(self.segments.index(segment))

    def _segment_at(self, offset: int) -> int:
        """Index of the segment that holds the offset, or would."""
        return max(bisect_right(self._bases, offset) - 1, 0)

    def _set_segments(self, segments: list[Segment]) -> None:
        segments[-1].log.guard = self.lock
        self._boundaries.clear()
        self.segments = segments
        self._bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def _segment_end(self, index: int) -> int:
        """The offset after the last one that the segment may hold."""
        return self._bases[index + 1] if index + 1 < len(self._bases) else self.end_offset

    def _note_boundary(self, offset: int, position: int) -> None:
        """Remember where a batch of the active segment begins, or will: the next read mostly begins where one ended."""
        boundaries = self._boundaries
        if offset not in boundaries:
            if len(boundaries) >= BOUNDARIES:
                del boundaries[next(iter(boundaries))]
            boundaries[offset] = position

    def _check_online(self) -> None:
        if self.offline is not None:
            raise StorageError(str(self.offline))

    def _go_offline(self, doing: str, error: OSError) -> StorageError:
        """Refuse appends from now on; return the error to raise."""
        failure = StorageError(
            f"{self.name}: cannot {doing}: {error.strerror or error} ({self.directory}); "
            "the partition is offline for writes, reads go on; see to the disk and restart the broker"
        )
        if self.offline is None:
            self.offline = failure
            logger.error("%s", failure)
        return failure

    def assign_leader_epoch(self, epoch: int, like: LogCore | None = None) -> None:
        """Note that the epoch's records begin at the end of the log, as a new leader does. Raises StorageError.

        `like` is another log, just made, that knows the same epochs: see `PartitionLog.create`."""
        with self.lock:
            self._assign_epoch(epoch, self.end_offset, like)

    def _assign_epoch(self, epoch: int, start_offset: int, like: LogCore | None = None) -> None:
        if self.epochs.assign(epoch, start_offset):
            self._save_epochs(like)

    def _save_epochs(self, like: LogCore | None = None) -> None:
        # Before a batch of the epoch is written, and on the disk with the first flush: recovery takes a batch of an epoch
        # that it does not know for damage.
        path = self.directory / LEADER_EPOCHS
        temporary = path.with_name(path.name + ".tmp")
        try:
            if like is None or not self.disk.link(like.directory / LEADER_EPOCHS, path):
                self.disk.write(temporary, self.epochs.encode())
                self.disk.rename(temporary, path)
        except OSError as error:
            raise self._go_offline("write the leader epochs", error) from error
        self._unsynced.add(path)
        self._directory_dirty = True

    def _roll(self, now_ms: int, base_offset: int | None = None) -> Segment:
        """Close the active segment and begin the next one, at the log's end unless a base offset beyond it is given."""
        old = self.active
        base_offset = self.end_offset if base_offset is None else base_offset
        if old.size == 0 and old.base_offset == base_offset:
            return old
        try:
            old.close_for_append()
            self._write_snapshot()
            fresh = Segment.create(self.disk, self.directory, base_offset, self.config, now_ms)
        except OSError as error:
            raise self._go_offline("begin a new segment", error) from error
        self._directory_dirty = True
        if old.size == 0:  # a follower's log that begins elsewhere, or nothing left before a truncation's end
            self._condemn([old], now_ms)
            self._set_segments([*self.segments[:-1], fresh])
            self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
        else:
            old.unload_indexes()
            self._set_segments([*self.segments, fresh])
        self._rolled()
        return fresh

    def _rolled(self) -> None:
        """Called when a segment was closed: its data should reach the disk."""

    def _write_snapshot(self) -> None:
        data = encode_snapshot(self.producer_state.entries.values())
        self.disk.write(snapshot_path(self.directory, self.end_offset), data)

    def _condemn(self, segments: list[Segment], now_ms: int, keep_snapshot: int = -1) -> None:
        """Take segments' files out of use now and remove them after the delay; slices may still be sending them."""
        due_ms = now_ms + self.config.file_delete_delay_ms
        for segment in segments:
            segment.change_suffix("", DELETED_SUFFIX)
            if segment.base_offset != keep_snapshot:
                self.disk.remove(snapshot_path(self.directory, segment.base_offset))
            segment.log.close()
            self._condemned.append((due_ms, segment))
        self._directory_dirty = True

    def remove_condemned(self, now_ms: int | None = None) -> int:
        """Remove the files whose delay is over (all, without a time); return how many segments that were."""
        with self.lock:
            due = [segment for due_ms, segment in self._condemned if now_ms is None or due_ms <= now_ms]
            self._condemned = [entry for entry in self._condemned if now_ms is not None and entry[0] > now_ms]
        for segment in due:
            for path in segment.paths():
                self.disk.remove(path)
        return len(due)

    def let_go(self) -> int:
        """Close descriptors that nobody uses just now and drop indexes of closed segments; both come back at the next use.

        Returns how many descriptors stay open."""
        with self.lock:
            for segment in self.segments[:-1]:
                segment.unload_indexes()
            return sum(not segment.log.close_if_idle() for segment in self.segments if segment.log.is_open)

    def abandon(self) -> None:
        """Close the files as they are, without writing anything more."""
        with self.lock:
            self.closed = True
            self.offline = self.offline or StorageError(f"{self.name}: the log is closed")
            for segment in self.segments:
                segment.log.close()

    def __repr__(self) -> str:
        return f"PartitionLog({self.name}, offsets {self.log_start_offset}-{self.end_offset}, {len(self.segments)} segments)"
