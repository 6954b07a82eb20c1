"""The broker's data folder: its lock, its owner, its clean-shutdown marker, its checkpoints.

Owner: LogManager. Files and their formats are Apache Kafka's: .lock, meta.properties, .kafka_cleanshutdown and the
checkpoint files.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerStartError
from streamactors.broker.log import logger
from streamactors.broker.log.checkpoint_text import decode_offsets, encode_offsets
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.folders.meta_properties import FILE_NAME as META_PROPERTIES
from streamactors.broker.log.folders.meta_properties import (
    FORMAT,
    MetaProperties,
    decode_properties,
    encode_properties,
    new_properties,
)

LOCK_FILE: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
PROBE: Final = ".probe"
PROBE_BYTES: Final = 1 << 20
"""About the size of the largest batch that a topic takes by default."""
HARMLESS: Final = frozenset({LOCK_FILE, PROBE, "lost+found"})

# A POSIX lock belongs to the process, so this set separates two brokers of one process.
_locked_here: set[Path] = set()
_locked_here_lock = threading.Lock()


class DataFolder:
    """A locked data folder. `was_clean`: it is new, or the last broker was shut down cleanly."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self.directory_id: uuid.UUID | None = None
        """The id of the folder in the metadata of the cluster; None before `open`, and for a folder of an old format."""
        self.failure: OSError | None = None
        """Why the partitions of the folder can no longer be used; None while the folder works."""
        self.shortage: OSError | None = None
        """Why its partitions may refuse records at the moment: descriptors or space are short. None if they do not."""
        self._shortage_lock = threading.Lock()
        self.was_clean = False
        self.previous_epoch = -1  # the broker epoch of the last broker, if it was shut down cleanly
        self.is_new = False
        self._lock_fd = -1
        self._checkpoints: dict[str, Mapping[tuple[str, int], int]] = {}
        """The contents of the checkpoint files, by file name."""

    def open(self, node_id: int, cluster_id: str | None) -> MetaProperties:
        """Create the folder if needed, lock it, and return its owner.

        Raises BrokerStartError if it is in use, not writable, damaged, or not the data folder of a broker.
        """
        try:
            self._disk.make_directory(self.path)
            self.lock()
        except OSError as error:
            raise BrokerStartError(
                f"cannot use the data folder {self.path}: {error.strerror or error}; choose another with --data"
            ) from error
        try:
            properties = self._read_properties(node_id, cluster_id)
            marker = self.path / CLEAN_SHUTDOWN
            self.was_clean = self.is_new or self._disk.exists(marker)
            if not self.is_new and self.was_clean:
                self.previous_epoch = _epoch_of(self._disk.read(marker))
                # Remove it from the disk before the first append: a later crash must not leave it.
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
        self.directory_id = properties.directory_id
        return properties

    def give_id(self) -> None:
        """Give an id to a folder of an older broker, which has none. Raises BrokerStartError."""
        path = self.path / META_PROPERTIES
        try:
            properties = decode_properties(self._disk.read(path))._replace(directory_id=uuid.uuid4())
            self._disk.write_atomically(path, encode_properties(properties))
        except OSError as error:
            raise BrokerStartError(f"cannot write {path}: {error.strerror or error}; repair the disk") from error
        self.directory_id = properties.directory_id

    def lock(self) -> None:
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
        """Unlock the folder."""
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
                    f"{self.path} is not the data folder of a broker: it has {strangers[0]}, but no {META_PROPERTIES}; "
                    "choose an empty folder, or a new one, with --data"
                ) from None
            properties = new_properties(node_id, cluster_id)
            self.is_new = True
            self._disk.write_atomically(path, encode_properties(properties))
        if properties.format > FORMAT:
            raise BrokerStartError(
                f"the data folder {self.path} was written by a newer streamactors: it has format {properties.format}, and this version "
                f"reads formats up to {FORMAT}; start that version, or choose another folder with --data"
            )
        if cluster_id is not None and cluster_id != properties.cluster_id:
            raise BrokerStartError(
                f"the data folder {self.path} belongs to cluster {properties.cluster_id}, not to {cluster_id}; "
                "choose another with --data"
            )
        return properties

    def read_checkpoint(self, name: str) -> dict[tuple[str, int], int]:
        """Return the offsets of a checkpoint file. A damaged file is logged and ignored."""
        try:
            offsets = decode_offsets(self._disk.read(self.path / name))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            logger.warning("%s is damaged (%s) and is ignored; recovery finds its offsets", self.path / name, error)
            return {}
        self._checkpoints[name] = offsets
        return offsets

    def is_in_checkpoint(self, name: str, topic: str, partition: int) -> bool:
        """Whether a checkpoint file has an offset for a partition."""
        return (topic, partition) in self._checkpoints.get(name, ())

    def write_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> None:
        """Write a checkpoint file if its content changes. Raises OSError."""
        if self._checkpoints.get(name) != offsets:
            self._disk.write_atomically(self.path / name, encode_offsets(offsets))
            self._checkpoints[name] = offsets

    def runs_short(self, error: OSError) -> bool:
        """Note that descriptors or space are short. Log the beginning of a shortage, and return whether it is a new one. On any thread; it does not
        wait."""
        with self._shortage_lock:
            if self.shortage is not None:
                return False
            self.shortage = error
        logger.error(
            "%s: %s; its partitions may refuse records until this is over; the broker checks every second",
            self.path,
            error.strerror or error,
        )
        return True

    def probe(self) -> bool:
        """Check by writing a file whether a shortage is over. Log its end, and return whether it is over. Blocks."""
        path = self.path / PROBE
        try:
            try:
                self._disk.write(path, bytes(PROBE_BYTES), sync=True)
            finally:
                self._disk.remove(path)
        except OSError as error:
            self.shortage = error
            return False
        with self._shortage_lock:
            was, self.shortage = self.shortage, None
        if was is not None:
            logger.warning("%s: %s is over; its partitions take records again", self.path, was.strerror or was)
        return True

    def mark_clean(self, broker_epoch: int) -> None:
        """Write the clean-shutdown marker with the epoch of the broker's registration. Raises OSError."""
        content = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":")).encode()
        self._disk.write(self.path / CLEAN_SHUTDOWN, content, sync=True)
        self._disk.sync_directory(self.path)


def _epoch_of(content: bytes) -> int:
    """Return the broker epoch in a clean-shutdown marker; -1 without one, as in Kafka before 3.7."""
    try:
        return int(json.loads(content)["brokerEpoch"])
    except (ValueError, KeyError, TypeError):
        return -1
