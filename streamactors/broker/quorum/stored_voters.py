"""Finds the voters that a folder of the metadata log names: in its newest snapshot, or in a later control record of the log.

Owner: a node before it starts, and the storage tool. A log that is damaged is not repaired here: what is
behind the damage is not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.segments.segment_files import LOG_SUFFIX
from streamactors.broker.metadata.snapshot import quorum_of, quorum_of_snapshot, snapshots
from streamactors.broker.quorum.voter_set import VoterSet, voters_of
from streamactors.broker.records.batch import RecordBatch, iter_batches


def snapshot_voters(disk: Disk, folder: Path) -> VoterSet | None:
    """Return the voters that the newest snapshot names. Raises OSError, CorruptMessage and CorruptRecord."""
    kept = snapshots(_names(disk, folder))
    return voters_of(quorum_of_snapshot(disk.read(folder / kept[-1][1]))) if kept else None


def stored_voters(disk: Disk, folder: Path) -> VoterSet | None:
    """Return the voters that the log in a folder names last, None if it names none.

    Raises OSError, CorruptMessage and CorruptRecord. Cost: reads the log, and decodes its control records."""
    found = snapshot_voters(disk, folder)
    for name in sorted(each for each in _names(disk, folder) if each.endswith(LOG_SUFFIX)):
        try:
            for batch in _batches(disk, folder / name):
                found = voters_of(quorum_of(batch)) or found
        except CorruptMessage:
            break  # recovery will cut the log here
    return found


def _names(disk: Disk, folder: Path) -> list[str]:
    try:
        return disk.names(folder)
    except FileNotFoundError:
        return []


def _batches(disk: Disk, path: Path) -> Iterator[RecordBatch]:
    for batch in iter_batches(memoryview(bytearray(disk.read(path)))):
        if batch.is_control:
            batch.ensure_valid()
        yield batch
