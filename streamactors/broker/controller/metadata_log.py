"""The metadata log on disk: partition 0 of __cluster_metadata, one batch per change, forced to disk before it counts.

Owner: the controller, the only writer. Format, folder and topic id: Apache Kafka's, so that its dump-log tool reads it. A
batch is atomic: recovery keeps it whole or drops it.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from streamactors.broker.controller.delta import ImageDelta
from streamactors.broker.controller.image import MetadataImage
from streamactors.broker.controller.metadata_codec import decode_record, encode_record
from streamactors.broker.controller.metadata_record import MetadataRecord
from streamactors.broker.controller.snapshot import decode_snapshot, encode_snapshot, snapshot_name, snapshots
from streamactors.broker.controller.topic_name import METADATA_TOPIC
from streamactors.broker.controller.wire_type import CorruptMetadata
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition_log import PartitionLog
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin

TOPIC_ID: Final = uuid.UUID(int=1)  # as in Apache Kafka
EPOCH: Final = 1  # of the controller; a quorum will count it up
CONFIG: Final = LogConfig(cleanup_policy=(), retention_ms=-1, retention_bytes=-1, max_message_bytes=2**30)


class MetadataLog:
    """Reads the log into an image once, and appends to it."""

    def __init__(self, log: PartitionLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms

    @classmethod
    def open(cls, logs: LogManager, now_ms: Callable[[], int]) -> MetadataLog:
        """Return the log of a data folder, a new one where there is none."""
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

    def load(self) -> ImageDelta:
        """Return everything that ever happened as one delta on nothing. Raises BrokerStartError when it makes no sense."""
        delta = ImageDelta(MetadataImage())
        at = -1
        try:
            for at, record in self._records():  # noqa: B007 - the complaint below names it
                delta.replay(record)
            delta.finish(self._log.end_offset - 1)
        except (CorruptMetadata, BrokerError, OSError) as error:
            raise BrokerStartError(
                f"the metadata log is damaged at record {at} ({error}); restore {METADATA_TOPIC}-0 from a copy, "
                "or start with another --data folder"
            ) from error
        return delta

    def append(self, records: Iterable[MetadataRecord]) -> int:
        """Append records as one batch and force them to disk; return the offset of the last. Raises BrokerError."""
        now_ms = self._now_ms()
        batch = build_batch([NewRecord(None, encode_record(record), now_ms) for record in records], leader_epoch=EPOCH)
        result = self._log.append_as_leader(memoryview(batch), EPOCH, now_ms, AppendOrigin.COORDINATOR)
        self._log.flush()
        self._log.advance_high_watermark(result.next_offset)
        return result.last_offset

    def snapshot(self, image: MetadataImage, more_than_bytes: int) -> None:
        """Write the image to a snapshot and let the log before it go, if that has grown so large. Raises BrokerError."""
        log = self._log
        if log.size_bytes <= more_than_bytes:
            return
        offset = image.offset + 1
        now_ms = self._now_ms()
        path = log.directory / snapshot_name(offset, EPOCH)
        try:
            # what was deleted stays so after a power cut, for nothing will say any more that it was
            log.disk.sync_directory(log.directory.parent)
            log.disk.write_atomically(path, encode_snapshot(image.records(), EPOCH, now_ms))
            for older, name in snapshots(log.disk.names(log.directory)):
                if older < offset:
                    log.disk.remove(log.directory / name)
        except OSError as error:
            raise StorageError(f"cannot write {path}: {error.strerror or error}") from error
        log.roll(now_ms)
        log.flush()  # the new segment is on the disk before the old ones go
        log.advance_log_start(offset, now_ms)

    def _records(self) -> Iterator[tuple[int, MetadataRecord]]:
        log = self._log
        start = log.log_start_offset
        kept = snapshots(log.disk.names(log.directory))
        if kept and kept[-1][0] >= start:
            start, name = kept[-1]
            path = log.directory / name
            for record in decode_snapshot(path, log.disk.read(path)):
                yield start - 1, record
        elif start > 0:
            raise CorruptMetadata(f"it begins at record {start}, and the snapshot of what was before is missing")
        if log.end_offset < start:
            raise CorruptMetadata(f"it ends at record {log.end_offset}, before its snapshot at {start}")
        for batch in log.replay(start, log.end_offset):
            batch.ensure_valid()  # after a clean stop nobody else has looked
            if batch.is_control:  # Kafka's controllers mark their elections in the log
                continue
            for each in batch.records():
                if each.value is None:
                    raise CorruptMetadata(f"record {each.offset} is empty")
                yield each.offset, decode_record(bytes(each.value))
