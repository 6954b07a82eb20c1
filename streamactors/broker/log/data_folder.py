"""The broker's data folder as a whole: its lock, whose it is, whether it was left in order, its checkpoints.

Owner: LogManager. Files and their formats are Apache Kafka's: .lock, meta.properties, .kafka_cleanshutdown and the
checkpoint files.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log.checkpoint_text import decode_offsets, encode_offsets
from streamactors.broker.log.files import Disk
from streamactors.broker.log.log_core import logger
from streamactors.broker.log.meta_properties import FILE_NAME as META_PROPERTIES
from streamactors.broker.log.meta_properties import (
    MetaProperties,
    decode_properties,
    encode_properties,
    new_properties,
)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
HARMLESS: Final = frozenset({LOCK_FILE, "lost+found"})

# A POSIX lock belongs to the process, so two brokers of one process must be told apart here.
_locked_here: set[Path] = set()
_locked_here_lock = threading.Lock()


class DataFolder:
    """A locked data folder. `was_clean`: it is new, or the broker before was shut down in order."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self.was_clean = False
        self.is_new = False
        self._lock_fd = -1
        self._written: dict[str, bytes] = {}

    def open(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        """Make the folder if it is not there, lock it, and return whose it is.

        Raises BrokerStartError: in use, not writable, damaged, or of something else than a broker.
        """
        try:
            self._disk.make_directory(self.path)
            self._lock()
        except OSError as error:
            raise BrokerStartError(
                f"cannot use the data folder {self.path}: {error.strerror or error}; choose another with --data"
            ) from error
        try:
            properties = self._read_properties(node_id, cluster_id)
            marker = self.path / CLEAN_SHUTDOWN
            self.was_clean = self.is_new or self._disk.exists(marker)
            if not self.is_new and self.was_clean:
                # gone from the disk before anything is appended: a crash later must not find it
                self._disk.remove(marker)
                self._disk.sync_directory(self.path)
        except OSError as error:
            self.unlock()
            raise BrokerStartError(
                f"cannot use the data folder {self.path}: {error.strerror or error}; choose another with --data"
            ) from error
        except BrokerStartError:
            self.unlock()
            raise
        return properties

    def _lock(self) -> None:
        resolved = self.path.resolve()
        with _locked_here_lock:
            fd = (
                -1 if resolved in _locked_here else os.open(resolved / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
            )
            try:
                if fd < 0:
                    raise BlockingIOError
                fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError):
                if fd >= 0:
                    os.close(fd)
                raise BrokerStartError(
                    f"the data folder {self.path} is in use by another broker; stop it, or choose another with --data"
                ) from None
            _locked_here.add(resolved)
            self._lock_fd = fd

    def unlock(self) -> None:
        """Let others use the folder."""
        with _locked_here_lock:
            if self._lock_fd >= 0:
                fd, self._lock_fd = self._lock_fd, -1
                os.close(fd)
                _locked_here.discard(self.path.resolve())

    def _read_properties(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        path = self.path / META_PROPERTIES
        try:
            properties = decode_properties(self._disk.read(path))
        except ValueError as error:
            raise BrokerStartError(
                f"{path} is damaged: {error}; restore it, or choose another folder with --data"
            ) from None
        except FileNotFoundError:
            strangers = [name for name in self._disk.names(self.path) if name not in HARMLESS]
            if strangers:
                raise BrokerStartError(
                    f"{self.path} is no broker's data folder: it has {strangers[0]}, but no {META_PROPERTIES}; "
                    "choose an empty folder, or a new one, with --data"
                ) from None
            properties = new_properties(node_id, cluster_id)
            self.is_new = True
            self._disk.write_atomically(path, encode_properties(properties))
        if cluster_id is not None and cluster_id != properties.cluster_id:
            raise BrokerStartError(
                f"the data folder {self.path} belongs to cluster {properties.cluster_id}, not to {cluster_id}; "
                "choose another with --data"
            )
        return properties

    def read_checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Return the offsets of a checkpoint file; a damaged one is as good as none, and is logged."""
        try:
            return decode_offsets(self._disk.read(self.path / name))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            logger.warning("%s is damaged (%s); its offsets are found out again", self.path / name, error)
            return {}

    def write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Replace a checkpoint file, if it would change. Raises OSError."""
        data = encode_offsets(offsets)
        if self._written.get(name) != data:
            self._disk.write_atomically(self.path / name, data)
            self._written[name] = data

    def mark_clean(self) -> None:
        """Leave word that everything is in order. Raises OSError."""
        content = json.dumps({"version": 0, "brokerEpoch": -1}, separators=(",", ":")).encode()
        self._disk.write(self.path / CLEAN_SHUTDOWN, content, sync=True)
        self._disk.sync_directory(self.path)
