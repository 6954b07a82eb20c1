"""A broker's copy of the metadata log of its controllers: on disk as Apache Kafka's, and as deltas of the image.

Owner: `Member`, on its dispatcher's thread. Batches are stored as they come; only committed ones are applied."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

from streamactors.broker.controller.metadata_log import open_log
from streamactors.broker.controller.metadata_snapshots import (
    begin_after_snapshot,
    disk_error,
    has_news,
    install_snapshot,
    newest_snapshot,
    truncate_log,
    write_snapshot,
)
from streamactors.broker.errors import BrokerError, BrokerStartError, CorruptMessage, StorageError
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.leader_epochs import common_end
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader, batch_records
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.snapshot import (
    decode_snapshot,
    quorum_of,
    quorum_of_snapshot,
    snapshot_name,
    snapshots,
)
from streamactors.broker.protocol.errors import MessageError
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.observer_state import EndOfLog
from streamactors.broker.quorum.voter_set import VoterSet, voters_of

_log = logging.getLogger("streamactors.broker.membership")


class WouldLoseCommitted(StorageError):
    """The quorum asks this broker to remove committed records: the disks of its voters have lost them."""


class MetadataCopy:
    """The log, and how far it is applied."""

    def __init__(self, log: PartitionLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._loader = MetadataLoader(MetadataImage())
        self._applied = 0  # the offset after the last batch that the loader has
        self._installed: ImageDelta | None = None
        self.voters: VoterSet | None = None
        """The voters that the log names, None if it names none (kraft.version 0)."""

    @classmethod
    def open(cls, logs: LogManager, now_ms: Callable[[], int]) -> MetadataCopy:
        """Return the copy in a data folder, an empty one if there is none. Raises BrokerStartError if it is damaged."""
        log = open_log(logs)
        copy = cls(log, now_ms)
        kept = snapshots(log.disk.names(log.directory))
        if kept:
            offset, name = kept[-1]
            copy._load(name, offset)
            begin_after_snapshot(log, now_ms())
        elif log.log_start_offset > 0:
            raise BrokerStartError(
                f"the metadata log in {log.directory} begins at record {log.log_start_offset}, and the snapshot of the "
                f"records before is missing; delete the folder: the controllers have the metadata"
            )
        return copy

    def _load(self, name: str, offset: int) -> None:
        path = self._log.directory / name
        try:
            content = self._log.disk.read(path)
            self._installed = self._loader.restart(decode_snapshot(path, content), offset - 1)
            self.voters = voters_of(quorum_of_snapshot(content))
        except (CorruptRecord, MessageError, BrokerError, OSError) as error:
            raise BrokerStartError(
                f"the snapshot {path} is damaged ({error}); delete the folder: the controllers have the metadata"
            ) from error
        self._applied = offset

    # --- the log ---

    def end(self) -> EndOfLog:
        """Return the end of the log."""
        log = self._log
        return EndOfLog(log.log_start_offset, log.end_offset, log.latest_epoch)

    def append(self, records: bytes | memoryview) -> None:
        """Append the leader's batches. Raises BrokerError."""
        self._log.append_as_follower(memoryview(bytearray(records)), self._now_ms())

    def truncate(self, epoch: int, end_offset: int) -> None:
        """Remove what the leader does not have. Raises StorageError, and WouldLoseCommitted if it was applied."""
        log = self._log
        to = common_end((epoch, end_offset), log.epoch_end_offset(epoch), log.end_offset)
        snapshot = newest_snapshot(log)
        if snapshot is not None and epoch < snapshot[0]:
            to = min(to, snapshot[1] - 1)  # the record before the snapshot's end is committed, and the leader lacks it
        self._refuse_to_lose(to)
        _log.info("the metadata log is truncated from %d to %d", log.end_offset, to)
        truncate_log(log, to, self._now_ms())

    def _refuse_to_lose(self, end_offset: int) -> None:
        if end_offset < self._applied:
            raise WouldLoseCommitted(
                f"the controllers lost metadata: their log ends at {end_offset}, and this broker has applied "
                f"{self._applied} records. Restore the controllers' folders from a copy"
            )

    def install(self, epoch: int, end_offset: int, content: bytes | bytearray) -> None:
        """Replace the log by a snapshot of the leader. Raises BrokerError, and WouldLoseCommitted if more was applied; the old log is
        then kept."""
        self._refuse_to_lose(end_offset)
        log = self._log
        path = log.directory / snapshot_name(end_offset, epoch)
        try:
            delta = self._loader.restart(decode_snapshot(path, bytes(content)), end_offset - 1)
            voters = voters_of(quorum_of_snapshot(bytes(content)))
        except (CorruptRecord, MessageError, BrokerError) as error:
            raise CorruptMessage(f"the snapshot {path.name} of the controllers is damaged: {error}") from error
        install_snapshot(log, epoch, end_offset, content, self._now_ms())
        self._installed = delta
        self.voters = voters
        self._applied = end_offset

    # --- the image ---

    def deltas(self, high_watermark: int) -> Iterator[ImageDelta]:
        """Yield the change by an installed snapshot, then the change by all batches below the high watermark.

        Raises CorruptRecord if the log contradicts itself, StorageShortage and StorageError if it cannot be read, other BrokerErrors if it is damaged."""
        if self._installed is not None:
            installed, self._installed = self._installed, None
            yield installed
        log = self._log
        log.advance_high_watermark(high_watermark)
        try:
            for batch in log.reader.replay(self._applied, high_watermark):
                batch.ensure_valid()
                self.voters = voters_of(quorum_of(batch)) or self.voters
                records: list[MetadataRecord] = batch_records(batch)
                self._loader.replay(records, batch.last_offset)
                self._applied = batch.next_offset
        except OSError as error:
            raise disk_error(log, error, f"{log.directory} cannot be read") from error
        delta = self._loader.take()
        if delta is not None:
            yield delta

    def snapshot(self, image: MetadataImage, more_than_bytes: int) -> None:
        """If the log is larger than this, write a snapshot of the image, and delete the log before it. Raises BrokerError."""
        log = self._log
        if log.size_bytes > more_than_bytes and has_news(log, image):
            quorum = () if self.voters is None else self.voters.records()
            write_snapshot(log, image, max(log.epochs.at(image.offset), 0), self._now_ms(), quorum)
