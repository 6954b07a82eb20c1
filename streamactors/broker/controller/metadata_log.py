"""The metadata log on disk: partition 0 of __cluster_metadata, one batch per change, flushed before the change is published.

Owner: the controller, the only writer. Format, folder and topic id are Apache Kafka's, so that its dump-log tool reads the log.
A batch is atomic: recovery keeps or drops it as a whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader, batch_records
from streamactors.broker.metadata.metadata_codec import encode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.snapshot import decode_snapshot, encode_snapshot, snapshot_name, snapshots
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.metadata.transaction_record import AbortTransaction
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin

TOPIC_ID: Final = uuid.UUID(int=1)  # as in Apache Kafka
EPOCH: Final = 1  # of the controller; a quorum will count it up
CONFIG: Final = LogConfig(cleanup_policy=(), retention_ms=-1, retention_bytes=-1, max_message_bytes=2**30)


class MetadataLog:
    """Reads the log into an image, and appends to it."""

    def __init__(self, log: PartitionLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms

    @classmethod
    def open(cls, logs: LogManager, now_ms: Callable[[], int]) -> MetadataLog:
        """Return the log of a data folder, a new one if there is none."""
        log = logs.get(METADATA_TOPIC, 0)
        if log is None:
            log = logs.create(METADATA_TOPIC, 0, TOPIC_ID, CONFIG)
            log.assign_leader_epoch(EPOCH)
        else:
            log.update_config(CONFIG)
        return cls(log, now_ms)

    @property
    def end_offset(self) -> int:
        """Return the offset that the next record gets."""
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record that is not only in a snapshot."""
        return self._log.log_start_offset

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch that is at most `epoch`, and the offset at which it ends."""
        return self._log.epoch_end_offset(epoch)

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with `offset` on, at least one. Raises BrokerError."""
        with self._log.read(offset, max_bytes, self._log.end_offset) as found:
            return found.read()

    def newest_snapshot(self) -> tuple[int, int, Path] | None:
        """Return (end offset, epoch, file) of the newest snapshot, None if there is none."""
        kept = snapshots(self._log.disk.names(self._log.directory))
        if not kept:
            return None
        end_offset, name = kept[-1]
        return end_offset, int(name.partition("-")[2].partition(".")[0]), self._log.directory / name

    def read_snapshot(self, path: Path, position: int, max_bytes: int) -> tuple[int, bytes]:
        """Return the size of a snapshot, and the bytes of it from `position` on. Raises OSError."""
        content = self._log.disk.read(path)
        return len(content), bytes(content[position : position + max_bytes])

    def load(self) -> ImageDelta:
        """Return the whole log as one delta on the empty image. Raises BrokerStartError if the log is damaged.

        A transaction that an earlier controller did not end is aborted in the log."""
        loader = MetadataLoader(MetadataImage())
        at = -1
        try:
            for at, records, last_offset in self._batches():  # noqa: B007 - the error below names it
                loader.replay(records, last_offset)
            if loader.in_transaction:
                abort = AbortTransaction("the controller that began it has stopped")
                loader.replay([abort], self.append([abort]))
            delta = loader.take()
        except (CorruptRecord, BrokerError, OSError) as error:
            raise BrokerStartError(
                f"the metadata log is damaged at record {at} ({error}); restore {METADATA_TOPIC}-0 from a copy, "
                "or start with another --data folder"
            ) from error
        if delta is None:  # an empty log
            delta = ImageDelta(MetadataImage())
        return delta

    def append(self, records: Iterable[MetadataRecord]) -> int:
        """Append records as one batch and flush; return the offset of the last record. Raises BrokerError."""
        now_ms = self._now_ms()
        batch = build_batch([NewRecord(None, encode_record(record), now_ms) for record in records], leader_epoch=EPOCH)
        result = self._log.append_as_leader(memoryview(batch), EPOCH, now_ms, AppendOrigin.COORDINATOR)
        self._log.flush()
        self._log.advance_high_watermark(result.next_offset)
        return result.last_offset

    def snapshot(self, image: MetadataImage, more_than_bytes: int) -> None:
        """If the log is larger than this, write the image to a snapshot and delete the log before it. Raises BrokerError."""
        if self._log.size_bytes > more_than_bytes:
            write_snapshot(self._log, image, EPOCH, self._now_ms())

    def _batches(self) -> Iterator[tuple[int, Iterable[MetadataRecord], int]]:
        """Yield (offset of the first record, records, offset of the last record) of the snapshot and of every batch behind it."""
        log = self._log
        start = log.log_start_offset
        kept = snapshots(log.disk.names(log.directory))
        if kept and kept[-1][0] >= start:
            start, name = kept[-1]
            path = log.directory / name
            yield start - 1, decode_snapshot(path, log.disk.read(path)), start - 1
        elif start > 0:
            raise CorruptRecord(f"it begins at record {start}, and the snapshot of the records before is missing")
        if log.end_offset < start:
            raise CorruptRecord(f"it ends at record {log.end_offset}, before its snapshot at {start}")
        for batch in log.reader.replay(start, log.end_offset):
            batch.ensure_valid()  # after a clean stop, recovery has not checked the batches
            yield batch.base_offset, batch_records(batch), batch.last_offset


def write_snapshot(log: PartitionLog, image: MetadataImage, epoch: int, now_ms: int) -> None:
    """Write the image to a snapshot beside the metadata log, and delete the log before it. Raises BrokerError.

    `epoch` is that of the last record in the image."""
    offset = image.offset + 1
    path = log.directory / snapshot_name(offset, epoch)
    try:
        # deleted folders must stay deleted after a power cut: the log will no longer have the record of the deletion
        log.disk.sync_directory(log.directory.parent)
        log.disk.write_atomically(path, encode_snapshot(image.records(), epoch, now_ms))
        for older, name in snapshots(log.disk.names(log.directory)):
            if older < offset:
                log.disk.remove(log.directory / name)
    except OSError as error:
        raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
    log.roll(now_ms)
    log.flush()  # the new segment must be on disk before the old ones are deleted
    log.trim.advance_log_start(offset, now_ms)
