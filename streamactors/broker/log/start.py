"""Opens every log in the data folders of a broker when it starts, with recovery after a crash.

Owner: LogManager, which takes over what was opened. An unreadable folder has failed, and is left out. If it is the first folder, the start fails."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from streamactors.broker.errors import StorageError
from streamactors.broker.log import logger
from streamactors.broker.log.checkpoint_text import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.flusher import FlushPool
from streamactors.broker.log.folders.data_folder import DataFolder
from streamactors.broker.log.folders.data_folders import METADATA_LOG, Folders, tell_left_out
from streamactors.broker.log.folders.folder_names import DELETE_SUFFIX, STRAY_SUFFIX, parse_folder, parse_future
from streamactors.broker.log.folders.future_log import REPLACING
from streamactors.broker.log.folders.strays import Stray, stray_in
from streamactors.broker.log.partition.log_loader import Checkpoints
from streamactors.broker.log.partition.partition_log import PartitionLog

Key = tuple[str, int]


class LogStart:
    """`logs` has what was opened, `counts` the number of logs in each folder, `moving` the folders to which replicas were moving when the
    last broker stopped."""

    def __init__(
        self,
        disk: Disk,
        folders: Folders,
        config: LogConfig,
        pool: FlushPool,
        *,
        strict: bool,
        others_have_metadata: bool = False,
    ) -> None:
        """`strict`: this broker wrote the logs. `others_have_metadata`: a damaged metadata log can be copied from other nodes."""
        self._others_have_metadata = others_have_metadata
        self._disk = disk
        self._folders = folders
        self._config = config
        self._pool = pool
        self._strict = strict
        self.logs: dict[Key, PartitionLog] = {}
        self.counts: Counter[Path] = Counter()
        self.moving: dict[Key, DataFolder] = {}
        self.strays: list[Stray] = []
        self.folder = folders.first
        """The folder that is being opened."""

    def open_all(self, now_ms: int) -> None:
        """Open the logs of every folder that works. Raises OSError for the first folder, and StorageError."""
        for folder in self._folders.working:
            self.folder = folder
            try:
                self._open(folder, now_ms)
            except OSError as error:
                if folder is self._folders.first:
                    raise
                self._leave_out(folder, error)

    def _open(self, folder: DataFolder, now_ms: int) -> None:
        starts, points, marks = map(folder.read_checkpoint, (LOG_STARTS, RECOVERY_POINTS, HIGH_WATERMARKS))
        for name in self._disk.names(folder.path):
            path = folder.path / name
            if not path.is_dir():
                continue
            if name.endswith(DELETE_SUFFIX):
                self._disk.remove_directory(path)
                continue
            if name.endswith(STRAY_SUFFIX):
                self.strays.append(stray_in(self._disk, path))
                continue
            future = parse_future(name)
            if future is not None:
                self.moving[future] = folder
                self._disk.remove_directory(path)
                continue
            key = parse_folder(name)
            if key is None:
                if not name.startswith(".") and name != "lost+found":
                    logger.warning("%s is not the folder of a partition and is ignored", path)
                continue
            if folder not in self._folders.for_partitions and name != METADATA_LOG:
                raise StorageError(
                    f"{path} is in the folder of metadata.log.dir, which is not one of log.dirs; add the folder to log.dirs, or move the partition"
                )
            checkpoints = Checkpoints(
                clean=folder.was_clean,
                log_start_offset=starts.get(key, 0),
                recovery_point=points.get(key, 0),
                high_watermark=marks.get(key, 0),
                strict=self._strict,
                each_synced=name == METADATA_LOG and self._strict,
                others_have_it=self._others_have_metadata,
            )
            log = PartitionLog.open(self._disk, path, *key, self._config, checkpoints, pool=self._pool, now_ms=now_ms)
            if key in self.logs and not self._replaces_twin(log, folder):
                continue
            log.close_idle()
            self.logs[key] = log
            self.counts[folder.path] += 1

    def _replaces_twin(self, log: PartitionLog, folder: DataFolder) -> bool:
        """Remove one of two logs of a partition. Return whether it is the one that was opened first.

        A log that has moved replaces the other one. A log without records was made while the folder of the other one had failed. Raises
        StorageError if both have records and neither has moved."""
        key = log.topic, log.partition
        twin = self.logs[key]
        for new, old in ((log, twin), (twin, log)):
            if self._disk.exists(new.directory / REPLACING):
                # If the replacement failed, the old log continued and is the newer one.
                went_on = (old.latest_epoch, old.end_offset) > (new.latest_epoch, new.end_offset)
                return self._remove_twin(new if went_on else old, (new if went_on else old) is twin)
        if log.end_offset > 0 and twin.end_offset > 0:
            log.abandon()
            raise StorageError(
                f"{log.name} is in {twin.directory.parent} and in {folder.path}, and only one of them has all its records: a data "
                "folder was left out of log.dirs for a while; move the older copy of the partition out of its folder"
            )
        return self._remove_twin(twin, True) if log.end_offset else self._remove_twin(log, False)

    def _remove_twin(self, log: PartitionLog, is_opened: bool) -> bool:
        log.abandon()
        self._disk.remove_directory(log.directory)
        if is_opened:
            self.counts[log.directory.parent] -= 1
        return is_opened

    def _leave_out(self, folder: DataFolder, error: OSError) -> None:
        """Start without a folder that cannot be read."""
        folder.failure = error
        tell_left_out(folder, error)
        for key, log in list(self.logs.items()):
            if log.directory.parent == folder.path:
                log.abandon()
                del self.logs[key]
        self.counts[folder.path] = 0
