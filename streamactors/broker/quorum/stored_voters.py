"""Finds the voters that a folder of the metadata log names: in its newest snapshot, or in a later control record of the log.

Owner: a node before it starts, and the storage tool. A log that is damaged is not repaired here: what is
after the damage is not read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.segments.segment_files import LOG_SUFFIX
from streamactors.broker.metadata.snapshot import quorum_of, quorum_of_snapshot, snapshots
from streamactors.broker.quorum.leader_change import voters_of_change
from streamactors.broker.quorum.voter_set import VoterSet, voters_of
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.control_batch import LEADER_CHANGE, control_records


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


def last_electors(disk: Disk, folder: Path) -> frozenset[int]:
    """Return the voters of the last leader in the log of a folder, none if its newest segments name no leader.

    Raises OSError and CorruptMessage. Cost: reads the newest segment, as a rule."""
    for name in sorted((each for each in _names(disk, folder) if each.endswith(LOG_SUFFIX)), reverse=True):
        found: frozenset[int] = frozenset()
        try:
            for batch in _batches(disk, folder / name):
                if batch.is_control:
                    for record in control_records(batch):
                        found = voters_of_change(record.value) if record.kind == LEADER_CHANGE else found
        except CorruptMessage:
            pass  # recovery will cut the log here
        if found:
            return found
    return frozenset()


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
