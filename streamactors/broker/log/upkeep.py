"""Periodic work on the logs: checkpoints, retention, flush.ms, expiry of producers, removal of files.

Owner: LogManager, which calls it on a thread that may wait for the disk. Intervals: Kafka's broker settings.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from streamactors.broker.errors import CorruptMessage, StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.checkpoint_text import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from streamactors.broker.log.config import LONG_MAX, ManagerConfig
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.shortage import passes
from streamactors.log_limit import log_limited

REMOVE_EVERY_MS: Final = 10_000
LOOK_EVERY_MS: Final = 60_000
SHORTEST_INTERVAL_MS: Final = 100
SHORTEST_FLUSH_INTERVAL_MS: Final = 10


class Upkeep:
    """Knows when each kind of work is due."""

    def __init__(
        self,
        logs: Callable[[], list[PartitionLog]],
        remove_deleted: Callable[[int], None],
        folders: Sequence[DataFolder],
        config: ManagerConfig,
        failed: Callable[[DataFolder, OSError], object],
    ) -> None:
        """`failed` is called with temporary errors."""
        self._failed = failed
        self._logs = logs
        self._remove_folders = remove_deleted
        self._folders = folders
        self.producer_id_expiration_ms = config.producer_id_expiration_ms
        self._works: tuple[tuple[Callable[[int], object], int], ...] = (
            (self._checkpoint_high_watermarks, config.replica_high_watermark_checkpoint_interval_ms),
            (self._checkpoint_recovery_points, config.log_flush_offset_checkpoint_interval_ms),
            (self._checkpoint_log_starts, config.log_flush_start_offset_checkpoint_interval_ms),
            (self._retain, config.log_retention_check_interval_ms),
            (self._expire_producers, config.producer_id_expiration_check_interval_ms),
            (self._remove_deleted, REMOVE_EVERY_MS),
        )
        self._due_ms: list[int | None] = [None] * len(self._works)
        self._dirty_since: dict[PartitionLog, int] = {}
        self._checkpointing = threading.Lock()

    def tick(self, now_ms: int) -> int:
        """Do the due work. Return the milliseconds until the next work is due. Disk errors are logged."""
        wait_ms = self._flush_old(now_ms)
        for index, (work, interval_ms) in enumerate(self._works):
            if interval_ms < 0:
                continue  # never
            interval_ms = max(interval_ms, SHORTEST_INTERVAL_MS)
            due_ms = self._due_ms[index]
            if due_ms is None:
                due_ms = now_ms + interval_ms
            elif due_ms <= now_ms or due_ms - now_ms > interval_ms:  # The second case: the wall clock went back.
                due_ms = now_ms + interval_ms
                try:
                    work(now_ms)
                except OSError as error:
                    logger.error("%s: %s", ", ".join(str(each.path) for each in self._folders), error)
            self._due_ms[index] = due_ms
            wait_ms = min(wait_ms, due_ms - now_ms)
        return wait_ms

    def write_checkpoints(self) -> set[Path]:
        """Write all checkpoint files now. Return the data folders of which one could not be written."""
        return (
            self._checkpoint_high_watermarks(0) | self._checkpoint_log_starts(0) | self._checkpoint_recovery_points(0)
        )

    def begin_anew(self, folder: DataFolder, topic: str, partition: int) -> None:
        """Remove the entries of an earlier log of this name from the checkpoint files: a new log is about to be made. On any thread.

        A start after a crash would give the new log the old one's offsets, and would empty it if it ends before the old one's start."""
        for name, write in (
            (HIGH_WATERMARKS, self._checkpoint_high_watermarks),
            (LOG_STARTS, self._checkpoint_log_starts),
            (RECOVERY_POINTS, self._checkpoint_recovery_points),
        ):
            with self._checkpointing:  # a file that is being written may still get the earlier log
                is_known = folder.is_in_checkpoint(name, topic, partition)
            if is_known:
                write(0)

    def _checkpoint_high_watermarks(self, now_ms: int) -> set[Path]:
        return self._checkpoint(HIGH_WATERMARKS, lambda log: log.high_watermark)

    def _checkpoint_recovery_points(self, now_ms: int) -> set[Path]:
        return self._checkpoint(RECOVERY_POINTS, lambda log: log.recovery_point)

    def _checkpoint_log_starts(self, now_ms: int) -> set[Path]:
        # Only log starts inside the first segment: file names tell the others.
        return self._checkpoint(
            LOG_STARTS,
            lambda log: log.log_start_offset if log.log_start_offset > log.segments[0].base_offset else None,
        )

    def _checkpoint(self, name: str, offset_of: Callable[[PartitionLog], int | None]) -> set[Path]:
        """Write a checkpoint file in each folder, with the logs of that folder. Return the folders in which it could not be written."""
        with self._checkpointing:
            by_folder: dict[str, dict[tuple[str, int], int]] = {str(each.path): {} for each in self._folders}
            for log in self._logs():
                offset = offset_of(log)
                offsets = by_folder.get(os.path.dirname(log.directory))  # of 10,000 logs Path.parent takes 30 ms
                if offset is not None and offsets is not None:
                    offsets[log.topic, log.partition] = offset
            failed: set[Path] = set()
            for folder in self._folders:
                if folder.failure is not None:
                    continue
                try:
                    folder.write_checkpoint(name, by_folder[str(folder.path)])
                except OSError as error:
                    failed.add(folder.path)
                    self._tell(folder, error, "cannot write %s: %s", folder.path / name, error.strerror or error)
            return failed

    def _tell(self, folder: DataFolder, error: OSError, text: str, *values: object) -> None:
        """Log an error, unless it is a shortage that the folder has logged already. The next turn tries again."""
        if passes(error):
            self._failed(folder, error)
        else:
            log_limited(logger, logging.ERROR, (text, *values), text, *values)

    def _retain(self, now_ms: int) -> None:
        for log in self._logs():
            try:
                log.trim.apply_retention(now_ms)
            except StorageError:
                pass  # logged when the partition went offline
            except CorruptMessage as error:  # the trouble of one log: the others are retained
                logger.error("%s: cannot remove old records: %s", log.name, error)
            except OSError as error:
                if not passes(log.folder.note(error)):
                    logger.error("%s: cannot remove old records: %s", log.name, error)
            log.close_idle()

    def _expire_producers(self, now_ms: int) -> None:
        for log in self._logs():
            log.expire_producers(now_ms, self.producer_id_expiration_ms)

    def _remove_deleted(self, now_ms: int) -> None:
        for log in self._logs():
            try:
                log.remove_condemned(now_ms)
            except OSError as error:  # the next turn, or the next start, removes what is left
                if not passes(log.folder.note(error)):
                    logger.error("%s: cannot remove old segments: %s", log.name, error)
        self._remove_folders(now_ms)

    def _flush_old(self, now_ms: int) -> int:
        """Flush the logs whose oldest unflushed record is due by flush.ms. Return the milliseconds until the next look."""
        wait_ms = LOOK_EVERY_MS
        dirty_since: dict[PartitionLog, int] = {}
        for log in self._logs():
            flush_ms = log.config.flush_ms
            if flush_ms == LONG_MAX or flush_ms < 0:
                continue  # Never. A negative value comes from log.flush.scheduler.interval.ms.
            half_ms = flush_ms // 2  # Two looks happen within the time that a record may wait.
            wait_ms = min(wait_ms, max(half_ms, SHORTEST_FLUSH_INTERVAL_MS))
            if log.unflushed:
                since_ms = self._dirty_since.get(log, now_ms)
                if now_ms - since_ms >= half_ms:
                    log.flusher.request_soon()
                else:
                    dirty_since[log] = min(since_ms, now_ms)  # The wall clock may have gone back.
        self._dirty_since = dirty_since
        return wait_ms
