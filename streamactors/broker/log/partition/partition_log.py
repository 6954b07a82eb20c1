"""The log of one partition, as the broker's handlers, coordinators and replicas use it.

Owner: LogManager creates, opens and closes it. Thread-safe: each log has one lock, held for microseconds. A PartitionLog is
the shared state (log_core) plus the parts that work on it: `reader`, `truncation`, `trim` and `flusher` are public;
append_as_leader and append_as_follower call log_append and log_follow. log_loader opens and recovers a log. The format on
disk, offsets and errors are Kafka's; docs/broker.md lists the differences.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from pathlib import Path
from typing import Final

from streamactors.broker.errors import StorageError, StorageShortage
from streamactors.broker.log.config import LONG_MAX, LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import Flusher, FlushPool
from streamactors.broker.log.partition.damage import KnownEnd
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.partition.log_append import AppendResult, LeaderAppend
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.partition.log_flush import LogFlush
from streamactors.broker.log.partition.log_folder import LogFolder
from streamactors.broker.log.partition.log_follow import FollowerAppend
from streamactors.broker.log.partition.log_loader import Checkpoints, LoadedLog, load_log
from streamactors.broker.log.partition.log_read import LogReader, LogSlice
from streamactors.broker.log.partition.log_trim import LogTrim
from streamactors.broker.log.partition.log_truncation import LogTruncation
from streamactors.broker.log.partition.required_flushes import RequiredFlushes
from streamactors.broker.log.partition_metadata import FILE_NAME as METADATA
from streamactors.broker.log.partition_metadata import decode_metadata, encode_metadata
from streamactors.broker.log.producers.producer_snapshot import snapshot_offsets
from streamactors.broker.log.producers.producer_state import ProducerEntry, ProducerState
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.records.validation import AppendOrigin

NOTHING_KNOWN: Final = Checkpoints()


class PartitionLog(LogCore):
    """An append-only sequence of records with offsets, in segments on disk."""

    __slots__ = (
        "_flush",
        "_follower",
        "_found_in_order",
        "_leader",
        "_required",
        "closed_in_order",
        "directory",
        "disk",
        "flusher",
        "lost_end",
        "reader",
        "topic_id",
        "trim",
        "truncation",
    )

    def __init__(
        self,
        folder: LogFolder,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        pool: FlushPool,
        loaded: LoadedLog,
        high_watermark: int,
    ) -> None:
        super().__init__(topic, partition, folder, config, loaded, high_watermark)
        self.topic_id = topic_id
        self.disk = folder.disk
        self.directory = folder.path
        self.lost_end: KnownEnd | None = None
        """The end of the log before recovery removed damaged records; see `LoadedLog`."""
        self.closed_in_order = False
        """`close` has synced everything."""
        self._found_in_order: tuple[int, ...] = ()
        self._required = RequiredFlushes(self.end_offset)
        self._leader = LeaderAppend(self, self._required)
        self._follower = FollowerAppend(self)
        self.reader = LogReader(self)
        self.truncation = LogTruncation(self, self._required)
        self.trim = LogTrim(self)
        self._flush = LogFlush(self, self._required, self.truncation, pool.clock_ms)
        self.flusher = Flusher(self, self._flush, pool)
        self.request_flush = self.flusher.request_soon

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        *,
        pool: FlushPool,
        now_ms: int,
        like: PartitionLog | None = None,
    ) -> PartitionLog:
        """Create an empty log and its folder. Raises OSError.

        `like` is another new log of the same topic. Small files with the same content are then hard links to its files,
        because creating files dominates the cost. These files are only ever replaced, never written in place."""
        disk.make_directory(directory)
        segment = Segment.create(disk, directory, 0, config, now_ms)
        loaded = LoadedLog([segment], ProducerState(now_ms=now_ms), LeaderEpochs(), 0, 0, 0, recovered=False)
        made = cls(LogFolder(disk, directory), topic, partition, topic_id, config, pool, loaded, 0)
        if topic_id is not None:
            if like is None or not disk.link(like.directory / METADATA, directory / METADATA):
                disk.write(directory / METADATA, encode_metadata(topic_id))
            made.folder.unsynced.add(directory / METADATA)
        made.configured = True
        made.mark_compacted()
        return made

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        checkpoints: Checkpoints = NOTHING_KNOWN,
        *,
        pool: FlushPool,
        now_ms: int,
    ) -> PartitionLog:
        """Open the log in an existing folder and recover it after a crash. Raises OSError."""
        loaded = load_log(disk, directory, f"{topic}-{partition}", config, checkpoints, now_ms)
        try:
            topic_id = decode_metadata(disk.read(directory / METADATA))
        except FileNotFoundError:
            topic_id = None
        folder = LogFolder(disk, directory)
        opened = cls(folder, topic, partition, topic_id, config, pool, loaded, checkpoints.high_watermark)
        opened.truncated_to = folder.read_truncation()
        opened.lost_end = loaded.lost_end
        if not loaded.recovered:
            opened._found_in_order = opened._shape()
        if loaded.recovered and opened.unflushed:
            opened.flush()  # After a crash of the process the last records may be only in the page cache.
        return opened

    # ---- state ----

    @property
    def segments(self) -> list[Segment]:
        """All segments in order. Do not change the list."""
        return self.segment_list.all

    @property
    def active(self) -> Segment:
        """The segment that appends go to."""
        return self.segment_list.active

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        with self.lock:
            return sum(segment.size for segment in self.segment_list.all)

    @property
    def latest_epoch(self) -> int:
        """The latest leader epoch of this log, -1 without one."""
        return self.epochs.latest

    @property
    def hw_limit(self) -> int:
        """Upper bound of the high watermark, without regard to other replicas: the first record whose required flush is pending, else
        the log end."""
        return self._required.limit(self.end_offset)

    @property
    def unflushed(self) -> int:
        """Number of offsets that no flush has covered yet."""
        return self.end_offset - self.recovery_point

    def next_base_offset(self, segment: Segment) -> int:
        """Return the base offset of the segment after this one, or the log end. The caller holds the lock."""
        return self.segment_list.end_of(self.segment_list.all.index(segment), self.end_offset)

    # ---- writing ----

    def append_as_leader(
        self, records: memoryview, leader_epoch: int, now_ms: int, origin: AppendOrigin = AppendOrigin.CLIENT
    ) -> AppendResult:
        """See `LeaderAppend.append`."""
        return self._leader.append(records, leader_epoch, now_ms, origin)

    def append_as_follower(self, records: memoryview, now_ms: int) -> AppendResult:
        """See `FollowerAppend.append`."""
        return self._follower.append(records, now_ms)

    def advance_high_watermark(self, offset: int) -> bool:
        """Raise the high watermark to the offset, at most to the log end. Return whether it moved."""
        with self.lock:
            offset = min(offset, self.end_offset)
            if offset <= self.high_watermark:
                return False
            self.set_high_watermark(offset)
            return True

    def assign_leader_epoch(self, epoch: int, like: PartitionLog | None = None) -> None:
        """Record that the epoch begins at the log end, as a new leader does. Raises StorageError.

        `like` is another new log with the same epochs: see `create`."""
        with self.lock:
            self.assign_epoch(epoch, self.end_offset, None if like is None else like.folder)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active segment is empty. Raises StorageError."""
        with self.lock:
            self.check_online()
            self.begin_segment(now_ms, self.end_offset)

    def flush(self) -> None:
        """Flush everything appended so far, on the caller's thread. Raises StorageError."""
        self._flush.flush()

    def update_config(self, config: LogConfig) -> None:
        """Use other settings from the next call on. Raises StorageError."""
        with self.lock:
            self.config = config
            self.configured = True
            with suppress(StorageShortage):  # the cleaner marks the folder before it compacts
                self.mark_compacted()

    # ---- reading ----

    def read(self, offset: int, max_bytes: int, up_to: int, min_one: bool = True) -> LogSlice:
        """See `LogReader.read`."""
        return self.reader.read(offset, max_bytes, up_to, min_one)

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the greatest epoch of this log that is at most `epoch`; (-1, -1) if there is none."""
        with self.lock:
            return self.epochs.end_offset(epoch, self.end_offset)

    def producers(self) -> list[ProducerEntry]:
        """Return the producers of the log, for DescribeProducers. Do not change them."""
        with self.lock:
            return list(self.producer_state.entries.values())

    def ongoing_transaction(self, producer_id: int, epoch: int | None = None) -> int | None:
        """Return the first offset of the producer's open transaction, None without one. With an epoch, only of that epoch."""
        with self.lock:
            entry = self.producer_state.entries.get(producer_id)
            if entry is None or entry.transaction_first_offset < 0 or epoch not in (None, entry.producer_epoch):
                return None
            return entry.transaction_first_offset

    def check_producer_epoch(self, producer_id: int, epoch: int) -> None:
        """See `ProducerState.check_epoch`."""
        with self.lock:
            self.producer_state.check_epoch(producer_id, epoch)

    def marker_is_stale(self, producer_id: int, epoch: int) -> bool:
        """See `ProducerState.marker_is_stale`."""
        with self.lock:
            return self.producer_state.marker_is_stale(producer_id, epoch)

    def next_sequence(self, producer_id: int, epoch: int) -> int | None:
        """See `ProducerState.next_sequence`."""
        with self.lock:
            return self.producer_state.next_sequence(producer_id, epoch)

    # ---- background work ----

    def forget_truncation(self) -> None:
        """Delete the saved truncation offset: the cleaner's checkpoint already takes it into account. Raises OSError."""
        with self.lock:
            if self.truncated_to == LONG_MAX:
                self.folder.forget_truncation()

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for `expiration_ms`. Return their number."""
        with self.lock:
            return self.producer_state.expire(now_ms, expiration_ms)

    # ---- files ----

    def remove_condemned(self, now_ms: int | None = None) -> int:
        """Remove the files of condemned segments whose delay is over, or of all without a time. Return the number of segments."""
        with self.lock:
            due = self.segment_list.take_condemned(now_ms)
        try:
            for segment in due:
                for path in segment.paths():
                    self.disk.remove(path)
        except OSError:
            with self.lock:  # what is removed already is removed again, which does nothing
                self.segment_list.put_back_condemned(due, now_ms)
            raise
        return len(due)

    def close_idle(self) -> int:
        """Close idle descriptors and drop the indexes of closed segments. The next use opens or loads them again.

        Returns the number of descriptors that stay open."""
        with self.lock:
            return self.segment_list.close_idle()

    def abandon(self) -> None:
        """Close the files without writing anything."""
        with self.lock:
            self.shut("is closed")
            self.segment_list.close()

    def delete(self, renamed: Path) -> None:
        """Close the log and rename its folder, so that a new log can have the name. Held slices can still be sent.

        The caller removes the folder later. Raises OSError."""
        with self.lock:
            self.deleted = True
            self.shut("was deleted")
            self.segment_list.close()
            self.disk.rename(self.directory, renamed)

    def close(self) -> None:
        """Flush everything, write indexes and producer snapshot, and close the files. Raises StorageError.

        Later appends are refused. Held slices can still be sent."""
        with self.lock:
            if self.closed:
                return
            failure = self.offline
            self.shut("is closed")
        try:
            # A log that never had a record, or that was not changed since it was opened, has nothing to write.
            has_files = self.end_offset > 0 or self.generation > 0
            if failure is None and has_files and self._shape() != self._found_in_order:
                with self.lock:
                    self.active.close_for_append()
                    for segment in self.segment_list.all:
                        segment.save_indexes()
                    if snapshot_offsets(self.disk, self.directory)[-1:] != [self.end_offset]:
                        self.folder.save_producers(self.producer_state, self.end_offset)
                self.flush()
                self.disk.sync_directory(self.directory)
            self.closed_in_order = failure is None
        except OSError as error:
            raise StorageError(
                f"{self.name}: cannot close the log: {error.strerror or error} ({self.directory})"
            ) from error
        finally:
            with suppress(OSError):  # the next start removes what is left
                self.remove_condemned()
            self.abandon()

    def _shape(self) -> tuple[int, ...]:
        """Return values of which at least one differs after any change of the log."""
        files = self.segment_list
        return self.end_offset, self.generation, *files.bases, files.condemned, len(self.folder.unsynced)

    def __repr__(self) -> str:
        return f"PartitionLog({self.name}, offsets {self.log_start_offset}-{self.end_offset}, {len(self.segments)} segments)"
