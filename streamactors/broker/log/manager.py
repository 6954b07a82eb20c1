"""All logs of a broker: create and delete them, write their checkpoints, run their periodic work. LogStart opens them.

Owner: the broker. The data plane calls `get`, `create` and `delete`. `tick` and the cleaner wait for the disk, so the broker runs each on its
own thread. Source: Kafka's LogManager.
"""

from __future__ import annotations

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from streamactors.broker.errors import BrokerStartError, StorageError, StorageShortage
from streamactors.broker.log import logger
from streamactors.broker.log.cleaning.cleaner import Cleaner
from streamactors.broker.log.closing import close_all
from streamactors.broker.log.config import LogConfig, ManagerConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import FlushPool
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.folders.data_folders import Folders
from streamactors.broker.log.folders.deleted_folders import DeletedFolders
from streamactors.broker.log.folders.folder_names import deleted_name, stray_name
from streamactors.broker.log.folders.future_log import FutureLog
from streamactors.broker.log.folders.meta_properties import MetaProperties
from streamactors.broker.log.folders.strays import Stray
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.segments.open_files import OpenFiles
from streamactors.broker.log.shortage import FULL_ERRORS, NAMES_TAKEN, passes
from streamactors.broker.log.start import Key, LogStart
from streamactors.broker.log.upkeep import Upkeep


class LogManager:
    """The logs in the data folders of one broker."""

    def __init__(
        self,
        folder: Path,
        *,
        others: Sequence[Path] = (),
        metadata_apart: bool = False,
        default_config: LogConfig,
        clock_ms: Callable[[], int],
        config: ManagerConfig | None = None,
        flush_pool: FlushPool | None = None,
        disk: Disk | None = None,
        node_id: int = 1,
        cluster_id: str | None = None,
        others_have_metadata: bool = False,
    ) -> None:
        """`folder` has the metadata log, alone if `metadata_apart`; `others` are further data folders. With `others_have_metadata` other nodes
        have the records of a metadata log that is damaged."""
        self._others_have_metadata = others_have_metadata
        self.folder = folder
        self.config = config or ManagerConfig()
        self.flush_pool = flush_pool or FlushPool(clock_ms)
        self._default_config = default_config
        self._clock_ms = clock_ms
        self._disk = disk or Disk()
        self._node_id = node_id
        self._cluster_id = cluster_id
        self.folders = Folders(self._disk, (folder, *others), metadata_apart=metadata_apart)
        self._logs: dict[Key, PartitionLog] = {}
        self._counts: Counter[Path] = Counter()
        """The number of logs in each folder: it is read for every new log."""
        self._logs_lock = threading.Lock()
        self._deleted = DeletedFolders(self._disk, self._is_lost)
        self.moving: dict[Key, DataFolder] = {}
        """The folders to which replicas were moving when the last broker stopped."""
        self.strays: list[Stray] = []
        """The folders of logs that the metadata does not know, which are kept."""
        self._open = False
        self.properties = MetaProperties("", node_id, None, own=True)
        self.watched = len(self.folders.all) > 1
        """Whether an error of a disk takes the whole folder out of use."""
        self.on_folder_failed: Callable[[DataFolder], object] = lambda folder: None
        """Called with a folder that has failed, on any thread, under the lock of a log; it must not wait."""
        self.on_shortage: Callable[[DataFolder], object] = lambda folder: None
        """Called likewise with a folder that is short of descriptors or space. `probe` checks whether the shortage is over."""
        self._failing = threading.Lock()
        self.broker_epoch = -1
        """Written at a clean stop: the epoch under which this broker left its cluster."""
        self.cleaner = Cleaner(self.logs, self.folders.all, dedupe_bytes=self.config.dedupe_bytes)
        self._upkeep = Upkeep(self.logs, self.remove_deleted, self.folders.all, self.config, self.failed)

    def configure(self, config: ManagerConfig) -> None:
        """Apply the dynamic settings: memory of the cleaner, and expiration of producers. Intervals do not change."""
        self.config = config
        self.cleaner.dedupe_bytes = config.dedupe_bytes
        self._upkeep.producer_id_expiration_ms = config.producer_id_expiration_ms

    @property
    def was_clean(self) -> bool:
        """Whether every folder is new or the last broker was shut down cleanly."""
        return self.folders.are_clean

    @property
    def previous_epoch(self) -> int:
        """The broker epoch under which the last broker left its cluster cleanly, else -1."""
        return self.folders.previous_epoch

    # ---- life ----

    def open(self) -> None:
        """Lock the folders and open every log in them, with recovery after a crash. Raises BrokerStartError."""
        self.properties = self.folders.open(self._node_id, self._cluster_id)
        start = LogStart(
            self._disk,
            self.folders,
            self._default_config,
            self.flush_pool,
            strict=self.properties.own,
            others_have_metadata=self._others_have_metadata,
        )
        self._logs, self._counts, self.moving, self.strays = start.logs, start.counts, start.moving, start.strays
        try:
            start.open_all(self._clock_ms())
            self.folders.check_usable()
            for folder in self.folders.working:
                for log in self._logs_in(folder):
                    self._watch(log, folder)
            self.cleaner.load()
        except BrokerStartError:
            self._abandon()
            raise
        except OSError as error:
            self._abandon()
            raise BrokerStartError(
                f"cannot open the logs in {start.folder.path}: {error.strerror or error}"
                f"{f' ({error.filename})' if error.filename else ''}; repair the disk, or choose another folder with --data"
            ) from error
        except StorageError as error:
            self._abandon()
            raise BrokerStartError(str(error)) from error
        self._open = True

    def log_room(self) -> int:
        """Return how many more log files may be open."""
        return self._disk.open_files.room

    def _watch(self, log: PartitionLog, folder: DataFolder) -> None:
        """Report the errors of a log to its folder."""
        log.folder.failed = partial(self.failed, folder)

    def failed(self, folder: DataFolder, error: OSError) -> bool:
        """Note an error of a folder's disk. Return whether the folder has failed: the broker continues without it, or ends. On any thread."""
        if passes(error):
            if folder.runs_short(error):
                self.on_shortage(folder)
            return False
        if not self.watched or error.errno in NAMES_TAKEN:
            return False
        with self._failing:
            if folder.failure is not None:
                return True
            folder.failure = error
        self.on_folder_failed(folder)
        return True

    def take_offline(self, folder: DataFolder) -> list[PartitionLog]:
        """Have the logs of a failed folder refuse appends, and return them."""
        logs = self._logs_in(folder)
        for log in logs:
            log.offline = log.offline or StorageError(f"{log.name}: the data folder {folder.path} has failed")
        return logs

    def _logs_in(self, folder: DataFolder) -> list[PartitionLog]:
        return [each for each in self.logs() if each.directory.parent == folder.path]

    def is_lost(self, directory_id: uuid.UUID | None) -> bool:
        """Whether a replica without a log here, which the metadata has in this folder, may be in a folder that has failed."""
        return self.folders.may_have_failed(directory_id)

    def _abandon(self) -> None:
        for log in self._logs.values():
            log.abandon()
        self._logs.clear()
        self._counts.clear()
        self.flush_pool.close()
        self.folders.unlock()

    def close(self) -> None:
        """Flush and close all logs, mark the shutdown as clean, and unlock the folders. Further calls do nothing.

        Write errors are logged. The next start then recovers the logs of the folder with the error."""
        if not self._open:
            return
        self._open = False
        self.flush_pool.close()
        kept = []
        for log in self.logs():
            if self._is_lost(log.directory.parent):
                log.abandon()
            else:
                kept.append(log)
        close_all(kept)
        spoiled = {log.directory.parent for log in kept if not log.closed_in_order}
        self.remove_deleted()
        spoiled |= self._upkeep.write_checkpoints()
        for folder in self.folders.working:
            if folder.path in spoiled:
                logger.error("%s was not closed cleanly; the next start recovers its logs", folder.path)
                continue
            try:
                folder.mark_clean(self.broker_epoch)
            except OSError as error:
                why = error.strerror or error
                logger.error("cannot mark %s as closed cleanly: %s; the next start recovers its logs", folder.path, why)
        self.folders.unlock()

    # ---- the logs ----

    def get(self, topic: str, partition: int) -> PartitionLog | None:
        """Return the log, None if it does not exist."""
        return self._logs.get((topic, partition))

    @property
    def open_files(self) -> OpenFiles:
        """The open files of the logs, which measure writes when somebody wants to know."""
        return self._disk.open_files

    def logs(self) -> list[PartitionLog]:
        """Return the current logs."""
        with self._logs_lock:
            return list(self._logs.values())

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        like: PartitionLog | None = None,
        directory_id: uuid.UUID | None = None,
    ) -> PartitionLog:
        """Create an empty log, in the folder with this id if there is one and its disk is not full. `like` is another new log of the topic, see
        `PartitionLog.create`. Raises StorageError."""
        known = self._logs.get((topic, partition))
        if known is not None:
            raise StorageError(f"{topic}-{partition} already exists in {known.directory.parent}")
        full: set[Path] = set()
        while True:
            folder = self.folders.place(topic, partition, directory_id, self._counts, full)
            path = folder.path / f"{topic}-{partition}"
            is_new = False
            try:
                self._deleted.make_way(path)
                is_new = not self._disk.exists(path)
                self._upkeep.begin_anew(folder, topic, partition)
                log = PartitionLog.create(
                    self._disk,
                    path,
                    topic,
                    partition,
                    topic_id,
                    config,
                    pool=self.flush_pool,
                    now_ms=self._clock_ms(),
                    like=like,
                )
                break
            except OSError as error:
                if is_new:  # a start in a full folder cannot open an empty log
                    with suppress(OSError):
                        self._disk.remove_directory(path)
                has_failed = self.failed(folder, error)
                if error.errno in FULL_ERRORS and folder.path not in full:  # the metadata log has no other folder
                    full.add(folder.path)
                    another = any(each.path not in full for each in self.folders.usable)
                else:
                    another = has_failed and folder is not self.folders.first
                if not another:
                    kind = StorageShortage if passes(error) else StorageError
                    raise kind(f"cannot create {path}: {error.strerror or error}") from error
        self._watch(log, folder)
        with self._logs_lock:
            self._logs[topic, partition] = log
            self._counts[folder.path] += 1
        return log

    def _is_lost(self, path: Path) -> bool:
        """Whether the data folder with a path has failed."""
        folder = self.folders.of_path(path)
        return folder is not None and folder.failure is not None

    def begin_future(self, log: PartitionLog, folder: DataFolder) -> FutureLog:
        """Begin a copy of a log in another data folder. Raises StorageError."""
        try:
            future = FutureLog(self._disk, log, folder.path, self.flush_pool, self._clock_ms())
        except OSError as error:
            self.failed(folder, error)
            raise StorageError(
                f"{log.name}: cannot begin a copy in {folder.path}: {error.strerror or error}"
            ) from error
        self._watch(future.log, folder)
        return future

    def replace(self, future: FutureLog) -> PartitionLog:
        """Let a copy take the place of its log, and return the new log. On the thread that appends. Raises StorageError; the log is then as
        before."""
        old, folder = future.current, self.folders.of_path(future.folder)
        assert folder is not None
        if folder.failure is not None:
            why = folder.failure.strerror or folder.failure
            raise StorageError(f"{old.name}: cannot move to {folder.path}: the data folder has failed: {why}")
        renamed = old.directory.parent / deleted_name(old.topic, old.partition)
        try:
            log = future.replace(renamed, self._clock_ms(), self.cleaner.cleaned_to(old))
        except OSError as error:
            self.failed(folder, error)
            raise StorageError(f"{old.name}: cannot move to {folder.path}: {error.strerror or error}") from error
        self._watch(log, folder)
        with self._logs_lock:
            self._logs[log.topic, log.partition] = log
            self._counts[old.directory.parent] -= 1
            self._counts[folder.path] += 1
        self._deleted.add(renamed, self._clock_ms() + log.config.file_delete_delay_ms)
        return log

    def directory_of(self, log: PartitionLog) -> uuid.UUID | None:
        """Return the id of the folder that has a log."""
        folder = self.folders.of_path(log.directory.parent)
        return None if folder is None else folder.directory_id

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log: rename its folder now, remove it after file.delete.delay.ms. An unknown log is ignored.

        Raises StorageError."""
        with self._logs_lock:
            log = self._logs.pop((topic, partition), None)
            if log is None:
                return
            self._counts[log.directory.parent] -= 1
        renamed = log.directory.parent / deleted_name(topic, partition)
        try:
            if self._is_lost(log.directory.parent):  # the next start with a repaired disk deletes it
                log.abandon()
                return
            log.delete(renamed)
        except OSError as error:
            self._deleted.add(log.directory, self._clock_ms())
            raise StorageError(f"cannot delete {log.directory}: {error.strerror or error}") from error
        finally:
            self.cleaner.forget(topic, partition)
        self._deleted.add(renamed, self._clock_ms() + log.config.file_delete_delay_ms)

    def set_aside(self, topic: str, partition: int) -> Path:
        """Close a log and keep its folder under another name. Return the folder. Raises StorageError, and then the folder is that of the log: no
        other log can take its place.

        Nothing deletes it: the records may be the only ones."""
        with self._logs_lock:
            log = self._logs[topic, partition]
        kept = log.directory.parent / stray_name(topic, partition)
        try:
            log.close()
        except StorageError as error:  # its files are closed nevertheless, and the next open recovers them
            logger.warning("%s", error)
        try:
            self._disk.rename(log.directory, kept)
        except OSError as error:
            log.folder.note(error)
            kind = StorageShortage if passes(error) else StorageError
            raise kind(f"cannot rename {log.directory} to {kept.name}: {error.strerror or error}") from error
        with self._logs_lock:
            del self._logs[topic, partition]
            self._counts[kept.parent] -= 1
        self.cleaner.forget(topic, partition)
        self.strays.append(Stray(kept, log.size_bytes))
        try:
            self._disk.sync_directory(kept.parent)
        except OSError as error:
            log.folder.note(error)  # a power cut may undo the name, and the next start repeats it
        return kept

    # ---- periodic work ----

    def tick(self, now_ms: int) -> int:
        """Do the due work. Return the milliseconds until the next work is due. Disk errors are logged.

        It waits for the disk: do not call it on the data plane. `now_ms` is epoch milliseconds."""
        return self._upkeep.tick(now_ms)

    def remove_deleted(self, now_ms: int | None = None) -> None:
        """Remove the folders of deleted logs whose delay is over, or all without a time."""
        self._deleted.remove(now_ms)
