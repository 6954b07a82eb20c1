"""The folder of one log: its small files, and the list of changes that are not synced yet.

Owner: LogCore, under the log's lock. The next flush syncs the listed changes. Every method that writes raises OSError.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from streamactors.broker.log.config import LONG_MAX
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.partition.leader_epochs import FILE_NAME as LEADER_EPOCHS
from streamactors.broker.log.partition.leader_epochs import LeaderEpochs
from streamactors.broker.log.producers.producer_snapshot import encode_snapshot
from streamactors.broker.log.producers.producer_state import ProducerState
from streamactors.broker.log.segments.segment_files import snapshot_path

COMPACTED: Final = ".compacted"
"""A file in the folder of a log that is, or was, compacted. It may hold an offset. From there on nothing counts as compacted, whatever the
cleaner's checkpoint says: the log is new, was truncated, or has moved from another data folder."""


def _is_alone(error: OSError) -> bool:
    return False


class LogFolder:
    """Folder of one log."""

    __slots__ = ("changed", "disk", "failed", "path", "unsynced")

    def __init__(self, disk: Disk, path: Path) -> None:
        self.disk = disk
        self.path = path
        self.failed: Callable[[OSError], bool] = _is_alone
        """Called with an error of the disk; returns whether the whole data folder has failed. It is called under the log's lock."""
        self.changed = True
        """Files were added, renamed or removed since the last flush began."""
        self.unsynced: set[Path] = set()
        """Small files that were written since the last flush began."""

    def note(self, error: OSError) -> OSError:
        """Report an error to the data folder, and return it."""
        self.failed(error)
        return error

    def take_unsynced(self) -> tuple[frozenset[Path], bool]:
        """Return the small files that a flush must sync, and whether it must sync the folder. Clear both."""
        taken = frozenset(self.unsynced), self.changed
        self.unsynced, self.changed = set(), False
        return taken

    def put_back(self, unsynced: frozenset[Path], changed: bool) -> None:
        """Undo `take_unsynced` after a flush that failed."""
        self.unsynced |= unsynced
        self.changed = self.changed or changed

    def save_epochs(self, epochs: LeaderEpochs, like: LogFolder | None) -> None:
        """Write the leader epochs, or link the file of another log with the same epochs.

        Call it before a batch of the epoch is written: recovery treats a batch of an unknown epoch as damage."""
        path = self.path / LEADER_EPOCHS
        temporary = path.with_name(path.name + ".tmp")
        if like is None or not self.disk.link(like.path / LEADER_EPOCHS, path):
            self.disk.write(temporary, epochs.encode())
            self.disk.rename(temporary, path)
        self._wrote(path)

    def save_producers(self, producers: ProducerState, end_offset: int) -> None:
        """Write the producer snapshot for the log end."""
        self.disk.write(snapshot_path(self.path, end_offset), encode_snapshot(producers.entries.values()))

    def mark_compacted(self) -> None:
        """Mark for recovery that the offsets of the log may have gaps from now on.

        Nothing is compacted yet: the cleaner's checkpoint may still have a deleted log of the same name."""
        path = self.path / COMPACTED
        if not self.disk.exists(path):
            self.disk.write(path, b"0")
            self._wrote(path)

    def save_truncation(self, offset: int) -> None:
        """Tell the cleaner, also after a restart, that nothing from this offset on is compacted."""
        path = self.path / COMPACTED
        if self.disk.exists(path):
            self.disk.write(path, b"%d" % offset)
            self.unsynced.add(path)

    def forget_truncation(self) -> None:
        """Delete the offset of `save_truncation`."""
        path = self.path / COMPACTED
        if self.disk.exists(path) and self.disk.size(path):
            self.disk.write(path, b"")

    def read_truncation(self) -> int:
        """Return the offset of `save_truncation`, LONG_MAX if there is none."""
        try:
            return int(self.disk.read(self.path / COMPACTED))
        except (FileNotFoundError, ValueError):
            return LONG_MAX

    def _wrote(self, path: Path) -> None:
        self.unsynced.add(path)
        self.changed = True
