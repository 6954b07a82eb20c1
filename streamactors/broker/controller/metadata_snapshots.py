"""Snapshots beside a metadata log, and where the log begins and ends because of them.

Owner: the node with the log: a controller (`MetadataLog`) or a broker (`MetadataCopy`). A snapshot's name is (end offset, epoch); the log begins after the newest one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from streamactors.broker.errors import StorageError, StorageShortage
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.log.shortage import passes
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.snapshot import encode_snapshot, snapshot_name, snapshots
from streamactors.broker.quorum.raft.raft_messages import EpochEnd
from streamactors.broker.quorum.replica_log import begins_anew
from streamactors.broker.records.control_batch import ControlRecord

_log = logging.getLogger("streamactors.broker.controller")


def write_snapshot(
    log: PartitionLog, image: MetadataImage, epoch: int, now_ms: int, quorum: Sequence[ControlRecord] = ()
) -> None:
    """Write the image to a snapshot beside the metadata log, and delete the log before it. Raises BrokerError.

    `epoch` is that of the last record in the image; `quorum` are the records that name the voters."""
    offset = image.offset + 1
    path = log.directory / snapshot_name(offset, epoch)
    try:
        # deleted folders must stay deleted after a power cut: the log will no longer have the record of the deletion
        log.disk.sync_directory(log.directory.parent)
        log.disk.write_atomically(path, encode_snapshot(image.records(), epoch, now_ms, quorum))
        for older, name in snapshots(log.disk.names(log.directory)):
            if older < offset:
                log.disk.remove(log.directory / name)
    except OSError as error:
        raise disk_error(log, error, f"cannot write {path}") from error
    log.roll(now_ms)
    log.flush()  # the new segment must be on disk before the old ones are deleted
    log.trim.advance_log_start(offset, now_ms)


def install_snapshot(log: PartitionLog, epoch: int, end_offset: int, content: bytes | bytearray, now_ms: int) -> None:
    """Write a snapshot of another node beside the metadata log, and begin the log after it. Raises StorageError."""
    _tell_of_loss(log, end_offset)
    path = log.directory / snapshot_name(end_offset, epoch)
    try:
        log.disk.write_atomically(path, bytes(content))
        log.truncation.truncate_fully_and_start_at(end_offset, now_ms)
        log.assign_leader_epoch(epoch)
        for older, name in snapshots(log.disk.names(log.directory)):
            if older < end_offset:
                log.disk.remove(log.directory / name)
    except OSError as error:
        raise disk_error(log, error, f"cannot write {path}") from error


def newest_snapshot(log: PartitionLog) -> EpochEnd | None:
    """Return (epoch, end offset) of the newest snapshot, None if there is none, or only that of a formatted folder."""
    kept = snapshots(log.disk.names(log.directory))
    if not kept or not kept[-1][0]:
        return None
    end_offset, name = kept[-1]
    return int(name.partition("-")[2].partition(".")[0]), end_offset


def has_news(log: PartitionLog, image: MetadataImage) -> bool:
    """Whether a snapshot of the image would have more records than the newest one. An image that ends before the newest snapshot has none: the log may
    not know the epoch of its last record."""
    snapshot = newest_snapshot(log)
    return image.offset >= max(log.log_start_offset, 0 if snapshot is None else snapshot[1])


def begin_after_snapshot(log: PartitionLog, now_ms: int) -> None:
    """Begin the log again after its newest snapshot if necessary (see `begins_anew`). Raises StorageError."""
    snapshot = newest_snapshot(log)
    if snapshot is None or not begins_anew(snapshot, log.latest_epoch, log.end_offset):
        return
    epoch, end_offset = snapshot
    if not log.log_start_offset == log.end_offset == end_offset:
        log.truncation.truncate_fully_and_start_at(end_offset, now_ms)
    log.assign_leader_epoch(epoch)


def truncate_log(log: PartitionLog, offset: int, now_ms: int) -> None:
    """Remove the records and epochs from an offset on, but not the epoch of the newest snapshot. Raises StorageError."""
    _tell_of_loss(log, offset)
    log.truncation.truncate_to(offset, now_ms)
    begin_after_snapshot(log, now_ms)


def _tell_of_loss(log: PartitionLog, end_offset: int) -> None:
    """Log that committed records are lost, because the leader of the log does not have them.

    A running node refuses to truncate them. After a restart it follows the controllers, because it cannot know which of the two logs is right."""
    if end_offset < log.high_watermark:
        _log.error(
            "the controllers lost metadata: their log ends at %d, and %d records were committed before this node was stopped. Restore the controllers' folders "
            "from a newer copy. Records of partitions that the controllers do not know are kept in folders that end in -stray",
            end_offset,
            log.high_watermark,
        )


def disk_error(log: PartitionLog, error: OSError, what: str) -> StorageError:
    """Return the error to raise for a file beside the metadata log. Its data folder is notified."""
    kind = StorageShortage if passes(log.folder.note(error)) else StorageError
    return kind(f"{what}: {error.strerror or error}")
