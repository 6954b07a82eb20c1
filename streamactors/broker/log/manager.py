"""All logs of a broker: opening them, keeping their checkpoints, and the work that is due from time to time.

Owner: the broker. `get`, `create` and `delete` are for the data plane; `tick` and the cleaner wait for the disk and
belong on threads of their own, which the broker gives them. Source: Kafka's LogManager.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError, StorageError
from streamactors.broker.log.checkpoint_text import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from streamactors.broker.log.cleaner import Cleaner
from streamactors.broker.log.config import LONG_MAX, LogConfig
from streamactors.broker.log.data_folder import DataFolder
from streamactors.broker.log.files import Disk
from streamactors.broker.log.flusher import FlushPool
from streamactors.broker.log.log_core import logger
from streamactors.broker.log.log_loader import Checkpoints
from streamactors.broker.log.meta_properties import MetaProperties
from streamactors.broker.log.partition_log import PartitionLog

DELETE_SUFFIX: Final = "-delete"
MAX_NAME: Final = 255
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class ManagerConfig:
    """How often the background work is done; names and defaults are Kafka's broker settings, with `_` for `.`."""

    log_cleaner_dedupe_buffer_size: int = 128 << 20
    log_cleaner_io_buffer_load_factor: float = 0.9
    log_flush_offset_checkpoint_interval_ms: int = 60_000
    log_flush_start_offset_checkpoint_interval_ms: int = 60_000
    log_retention_check_interval_ms: int = 300_000
    producer_id_expiration_check_interval_ms: int = 600_000
    producer_id_expiration_ms: int = 86_400_000
    replica_high_watermark_checkpoint_interval_ms: int = 5_000

    @classmethod
    def of(cls, settings: object) -> ManagerConfig:
        """Return the values that an object with attributes of the same names has, such as the broker's settings."""
        return cls(**{field.name: getattr(settings, field.name) for field in fields(cls)})


class LogManager:
    """The logs under one data folder."""

    def __init__(
        self,
        folder: Path,
        *,
        default_config: LogConfig,
        clock_ms: Callable[[], int],
        config: ManagerConfig | None = None,
        flush_pool: FlushPool | None = None,
        disk: Disk | None = None,
        node_id: int = 1,
        cluster_id: str | None = None,
    ) -> None:
        self.folder = folder
        self.config = config or ManagerConfig()
        self.flush_pool = flush_pool or FlushPool()
        self._default_config = default_config
        self._clock_ms = clock_ms
        self._disk = disk or Disk()
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._data = DataFolder(self._disk, folder)
        self._logs: dict[Key, PartitionLog] = {}
        self._logs_lock = threading.Lock()
        self._gone: list[tuple[int, Path]] = []
        self._due: dict[Callable[[int], None], int] = {}
        self._dirty_since: dict[PartitionLog, int] = {}
        self._open = False
        self.properties = MetaProperties("", node_id, None, own=True)
        self.cleaner = Cleaner(
            self.logs,
            self._data,
            dedupe_bytes=int(
                self.config.log_cleaner_dedupe_buffer_size * self.config.log_cleaner_io_buffer_load_factor
            ),
        )

    @property
    def was_clean(self) -> bool:
        """Whether the folder was left in order by the last broker, or is new."""
        return self._data.was_clean

    # ---- life ----

    def open(self) -> None:
        """Lock the folder and open every log in it, recovering what a crash left. Raises BrokerStartError."""
        self.properties = self._data.open(self._node_id, self._cluster_id)
        try:
            self._open_all(self._clock_ms())
        except OSError as error:
            self._abandon()
            raise BrokerStartError(
                f"cannot open the logs in {self.folder}: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}; see to the disk, or choose another folder with --data"
            ) from error
        except StorageError as error:
            self._abandon()
            raise BrokerStartError(str(error)) from error
        self._open = True

    def _open_all(self, now_ms: int) -> None:
        starts, points, marks = map(self._data.read_checkpoint, (LOG_STARTS, RECOVERY_POINTS, HIGH_WATERMARKS))
        self.cleaner.load()
        for name in self._disk.names(self.folder):
            path = self.folder / name
            if not path.is_dir():
                continue
            if name.endswith(DELETE_SUFFIX):
                self._disk.remove_directory(path)
                continue
            key = parse_folder(name)
            if key is None:
                if not name.startswith(".") and name != "lost+found":
                    logger.warning("%s is no partition's folder and is left alone", path)
                continue
            checkpoints = Checkpoints(
                clean=self._data.was_clean,
                log_start_offset=starts.get(key, 0),
                recovery_point=points.get(key, 0),
                high_watermark=marks.get(key, 0),
                strict=self.properties.own,
            )
            log = PartitionLog.open(
                self._disk, path, *key, self._default_config, checkpoints, pool=self.flush_pool, now_ms=now_ms
            )
            log.let_go()
            self._logs[key] = log

    def _abandon(self) -> None:
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self.flush_pool.close()
        self._data.unlock()

    def close(self) -> None:
        """Put everything on the disk, leave word that it is in order, and unlock the folder. More calls do nothing.

        What cannot be written is logged; the next start recovers it."""
        if not self._open:
            return
        self._open = False
        self.flush_pool.close()
        in_order = True
        for log in self.logs():
            try:
                log.close()
            except StorageError as error:
                in_order = False
                logger.error("%s", error)
            in_order = in_order and log.closed_in_order
        try:
            for _, path in self._gone:
                self._disk.remove_directory(path)
            now_ms = self._clock_ms()
            self._checkpoint_high_watermarks(now_ms)
            self._checkpoint_log_starts(now_ms)
            self._checkpoint_recovery_points(now_ms)
            if in_order:
                self._data.mark_clean()
        except OSError as error:
            logger.error("cannot write the checkpoints of %s: %s; the next start recovers", self.folder, error)
        self._data.unlock()

    # ---- the logs ----

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log, None if there is none."""
        return self._logs.get((topic, partition))

    def logs(self) -> list[PartitionLog]:
        """Return all logs as of now."""
        with self._logs_lock:
            return list(self._logs.values())

    def create(self, topic: str, partition: int, topic_id: uuid.UUID | None, config: LogConfig) -> PartitionLog:
        """Make an empty log. Raises StorageError."""
        path = self.folder / f"{topic}-{partition}"
        if (topic, partition) in self._logs:
            raise StorageError(f"{topic}-{partition} exists already in {self.folder}")
        try:
            log = PartitionLog.create(
                self._disk, path, topic, partition, topic_id, config, pool=self.flush_pool, now_ms=self._clock_ms()
            )
        except OSError as error:
            raise StorageError(f"cannot create {path}: {error.strerror or error}") from error
        with self._logs_lock:
            self._logs[topic, partition] = log
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log: its folder is renamed now, and removed after file.delete.delay.ms. Unknown ones are ignored.

        Raises StorageError."""
        with self._logs_lock:
            log = self._logs.pop((topic, partition), None)
        if log is None:
            return
        ending = f"-{partition}.{uuid.uuid4().hex}{DELETE_SUFFIX}"
        renamed = self.folder / (topic[: MAX_NAME - len(ending)] + ending)
        try:
            log.delete(renamed)
        except OSError as error:
            raise StorageError(f"cannot delete {log.directory}: {error.strerror or error}") from error
        self.cleaner.forget(topic, partition)
        with self._logs_lock:
            self._gone.append((self._clock_ms() + log.config.file_delete_delay_ms, renamed))

    # ---- work from time to time ----

    def tick(self, now_ms: int) -> int:
        """Do what is due; return the milliseconds until something is due again. Errors of the disk are logged."""
        config = self.config
        works: tuple[tuple[Callable[[int], None], int], ...] = (
            (self._checkpoint_high_watermarks, config.replica_high_watermark_checkpoint_interval_ms),
            (self._checkpoint_recovery_points, config.log_flush_offset_checkpoint_interval_ms),
            (self._checkpoint_log_starts, config.log_flush_start_offset_checkpoint_interval_ms),
            (self._retain, config.log_retention_check_interval_ms),
            (self._expire_producers, config.producer_id_expiration_check_interval_ms),
            (self._remove_deleted, 10_000),
        )
        wait_ms = self._flush_old(now_ms)
        for work, interval_ms in works:
            due_ms = self._due.setdefault(work, now_ms + interval_ms)
            if due_ms - now_ms > interval_ms:
                due_ms = now_ms  # the wall clock went back
            if due_ms <= now_ms:
                self._due[work] = due_ms = now_ms + interval_ms
                try:
                    work(now_ms)
                except OSError as error:
                    logger.error("%s: %s", self.folder, error)
            wait_ms = min(wait_ms, due_ms - now_ms)
        return wait_ms

    def _checkpoint_high_watermarks(self, now_ms: int) -> None:
        self._data.write_checkpoint(
            HIGH_WATERMARKS, {(log.topic, log.partition): log.high_watermark for log in self.logs()}
        )

    def _checkpoint_recovery_points(self, now_ms: int) -> None:
        self._data.write_checkpoint(
            RECOVERY_POINTS, {(log.topic, log.partition): log.recovery_point for log in self.logs()}
        )

    def _checkpoint_log_starts(self, now_ms: int) -> None:
        # only those that lie inside their first segment: the others are seen from the files
        starts = {
            (log.topic, log.partition): log.log_start_offset
            for log in self.logs()
            if log.log_start_offset > log.segments[0].base_offset
        }
        self._data.write_checkpoint(LOG_STARTS, starts)

    def _retain(self, now_ms: int) -> None:
        for log in self.logs():
            try:
                log.apply_retention(now_ms)
            except StorageError:
                pass  # logged when the partition went offline
            log.let_go()

    def _expire_producers(self, now_ms: int) -> None:
        for log in self.logs():
            log.expire_producers(now_ms, self.config.producer_id_expiration_ms)

    def _remove_deleted(self, now_ms: int) -> None:
        for log in self.logs():
            log.remove_condemned(now_ms)
        with self._logs_lock:
            due = [path for due_ms, path in self._gone if due_ms <= now_ms]
            self._gone = [entry for entry in self._gone if entry[0] > now_ms]
        for path in due:
            self._disk.remove_directory(path)

    def _flush_old(self, now_ms: int) -> int:
        """Flush the logs that flush.ms asks for; return when to look again."""
        wait_ms = 60_000
        dirty_since: dict[PartitionLog, int] = {}
        for log in self.logs():
            flush_ms = log.config.flush_ms
            if flush_ms == LONG_MAX:
                continue
            half_ms = max(flush_ms // 2, 1)  # looked at twice in the time that a record may wait
            wait_ms = min(wait_ms, half_ms)
            if log.unflushed:
                since_ms = self._dirty_since.get(log, now_ms)
                if now_ms - since_ms >= half_ms:
                    log.flusher.request_soon()
                else:
                    dirty_since[log] = since_ms
        self._dirty_since = dirty_since
        return wait_ms


def parse_folder(name: str) -> Key | None:
    """Return (topic, partition) of a folder's name, None if it is none."""
    topic, dash, number = name.rpartition("-")
    if not dash or not topic or not number.isascii() or not number.isdigit():
        return None
    return topic, int(number)
