"""The future log of a replica that moves to another data folder: it is filled from the current log and then takes its place (KIP-113).

Owner: `folder_moves`; one thread at a time calls it. The folder is called TOPIC-N.HEX-future, as in Apache Kafka. A truncation of the current
log makes the copy begin again, because the copied records may have been replaced. The current log is not compacted meanwhile. The replacement is
atomic: the new folder gets its name and a marker, then the old one is deleted. A start that finds both keeps the one with the marker."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerError, OffsetOutOfRange, StorageError
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import FlushPool
from streamactors.broker.log.folders.folder_names import future_name
from streamactors.broker.log.partition.log_folder import COMPACTED
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog

REPLACING: Final = ".replacing"
"""A file in the folder of a log whose predecessor in another data folder may not be deleted yet."""
READ_AT_ONCE: Final = 1 << 20


class FutureLog:
    """A copy of `current` in the making."""

    def __init__(self, disk: Disk, current: PartitionLog, folder: Path, pool: FlushPool, now_ms: int) -> None:
        """Begin an empty log in a data folder. Raises OSError, StorageError."""
        self._disk = disk
        self._pool = pool
        self.current = current
        self.folder = folder
        directory = folder / future_name(current.topic, current.partition)
        try:
            self.log = PartitionLog.create(
                disk,
                directory,
                current.topic,
                current.partition,
                current.topic_id,
                current.config,
                pool=pool,
                now_ms=now_ms,
            )
        except (BrokerError, OSError):
            with suppress(OSError):  # remaining files would begin the move at the next start
                disk.remove_directory(directory)
            raise
        with current.lock:  # a pass of the cleaner replaces segments under the lock, and looks
            current.is_copied = True
        self._generation = current.generation
        self.copied = 0
        """The bytes copied so far."""
        self.flushes = 0
        """How often the copy was synced."""

    @property
    def left(self) -> int:
        """The number of offsets that are not copied."""
        return max(self.current.end_offset - self.log.end_offset, 0)

    def copy(self, most_bytes: int, now_ms: int) -> int:
        """Copy up to about this many bytes. Return about how many bytes are left. Raises BrokerError, OSError."""
        copied = 0
        while copied < most_bytes:
            size = self._copy_piece(now_ms, most_bytes - copied)
            if size == 0:
                break
            copied += size
        self.copied += copied
        return self.bytes_left()

    def bytes_left(self) -> int:
        """Return about how many bytes are not copied, at most a segment. Raises OSError."""
        current, future = self.current, self.log
        with current.lock:
            if future.end_offset < current.active.base_offset:
                return current.config.segment_bytes
            at = min(max(future.end_offset, current.log_start_offset), current.end_offset)
            with current.read(at, current.config.segment_bytes, current.end_offset) as piece:
                return piece.length

    def flush(self) -> int:
        """Sync the copy. Return about how many bytes are left by then. Raises StorageError, OSError."""
        self.log.flush()
        self.flushes += 1
        return self.bytes_left()

    def _copy_piece(self, now_ms: int, most_bytes: int = READ_AT_ONCE) -> int:
        current, future = self.current, self.log
        with current.lock:
            start, end, generation = current.log_start_offset, current.end_offset, current.generation
        if generation != self._generation or not start <= future.end_offset <= end:
            future.truncation.truncate_fully_and_start_at(start, now_ms)
            self._generation = generation
        if future.end_offset == end:
            return 0
        try:
            with current.read(future.end_offset, min(most_bytes, READ_AT_ONCE), end) as piece:
                data = piece.read()
        except OffsetOutOfRange:
            return 1  # retention or a truncation came between
        future.truncation.begin_with(memoryview(data), now_ms)
        with current.lock:
            if current.generation != generation:
                return 1  # a truncation may have changed what was read
        if not data:  # compaction left no batch up to the end
            with future.lock:
                future.begin_segment(now_ms, end)
                future.end_offset = end
            return 1
        future.append_as_follower(memoryview(data), now_ms)
        return len(data)

    def replace(self, renamed: Path, now_ms: int, cleaned_to: int = 0) -> PartitionLog:
        """Take the place of the current log, whose folder is `renamed` and can be removed. Return the new log.

        `cleaned_to` is the offset up to which the current log is compacted.
        The caller keeps all appends away meanwhile. Raises BrokerError or OSError, and then the current log is as before."""
        current, future = self.current, self.log
        with current.lock:
            current.check_online()
            self._take_state(now_ms, cleaned_to, is_compacted=self._copy_rest(now_ms))
            future.close()
            future.deleted = True  # a flush requested earlier would find the folder renamed
            path = self.folder / f"{current.topic}-{current.partition}"
            if path != current.directory and self._disk.exists(path):
                with suppress(OSError):  # left by a replacement that failed
                    self._disk.remove_directory(path)
            self._disk.write(future.directory / REPLACING, b"", sync=True)
            self._disk.rename(future.directory, path)
            try:
                self._disk.sync_directory(self.folder)
                opened = self._open(path, now_ms)
            except (BrokerError, OSError):
                with suppress(OSError):
                    self._disk.remove_directory(path)
                raise
            # The copy is on the disk, so the appends that wait for a flush are done.
            current.recovery_point = current.end_offset
            current.flusher.finish()
            with suppress(OSError):  # its disk has failed: the marker stays, and a later start deletes the old log
                current.delete(renamed)
                self._disk.sync_directory(renamed.parent)
                self._disk.remove(path / REPLACING)
        return opened

    def _copy_rest(self, now_ms: int) -> bool:
        """Copy the rest. Return whether the current log is, or was, compacted. Raises BrokerError.

        An OSError comes from the current log: its disk has failed, not that of the copy."""
        current = self.current
        try:
            while self._copy_piece(now_ms):
                pass
            return self._disk.exists(current.directory / COMPACTED)
        except OSError as error:
            current.folder.failed(error)
            raise StorageError(f"{current.name}: cannot read {current.directory}: {error.strerror or error}") from error

    def _take_state(self, now_ms: int, cleaned_to: int, *, is_compacted: bool) -> None:
        """Take over the state that does not follow from the records. The caller holds the lock of the current log."""
        current, future = self.current, self.log
        folder = future.folder
        with future.lock:
            if is_compacted:
                folder.mark_compacted()
            folder.save_truncation(cleaned_to)
            if current.log_start_offset > future.log_start_offset:
                future.high_watermark = min(current.high_watermark, future.end_offset)
                future.trim.advance_log_start(current.log_start_offset, now_ms)
            future.use_epochs(current.epochs.copy())
            future.producer_state, future.first_unstable = current.producer_state, current.first_unstable
            folder.save_producers(future.producer_state, future.end_offset)

    def _open(self, path: Path, now_ms: int) -> PartitionLog:
        current = self.current
        checkpoints = Checkpoints(
            clean=True,
            log_start_offset=current.log_start_offset,
            recovery_point=current.end_offset,
            high_watermark=current.high_watermark,
        )
        opened = PartitionLog.open(
            self._disk,
            path,
            current.topic,
            current.partition,
            current.config,
            checkpoints,
            pool=self._pool,
            now_ms=now_ms,
        )
        opened.update_config(current.config)
        opened.configured = current.configured
        opened.sole_replica = current.sole_replica
        opened.generation = current.generation
        opened.truncated_to = min(opened.truncated_to, current.truncated_to)
        if opened.end_offset != current.end_offset:
            opened.abandon()
            raise StorageError(
                f"{current.name}: the copy in {self.folder} ends at {opened.end_offset}, not at {current.end_offset}"
            )
        return opened

    def discard(self) -> None:
        """Remove the copy. An error of the disk is ignored: the next start removes the folder."""
        with self.current.lock:
            self.current.is_copied = False
        with self.log.lock:
            self.log.deleted = True
        self.log.abandon()
        with suppress(OSError):
            self._disk.remove_directory(self.log.directory)
