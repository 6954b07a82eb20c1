"""The metadata log on disk: partition 0 of __cluster_metadata, one batch per change.

Owner: the controller and its `Quorum`, which syncs the log and says what is committed. Format, folder and topic id are Apache Kafka's, so that its dump-log tool reads the log.
A batch is atomic: recovery keeps or drops it as a whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import suppress
from typing import Final

from streamactors.broker.controller.metadata_snapshots import (
    begin_after_snapshot,
    disk_error,
    has_news,
    install_snapshot,
    newest_snapshot,
    truncate_log,
    write_snapshot,
)
from streamactors.broker.errors import BrokerError, BrokerStartError, StorageError, StorageShortage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.manager import LogManager
from streamactors.broker.log.partition.partition_log import PartitionLog
from streamactors.broker.metadata.delta import ImageDelta
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.loader import MetadataLoader, batch_records
from streamactors.broker.metadata.metadata_codec import encode_record
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.metadata.snapshot import (
    BOOTSTRAP_FILE,
    decode_snapshot,
    quorum_of_snapshot,
    snapshot_name,
    snapshots,
)
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.protocol.errors import MessageError
from streamactors.broker.protocol.record_schema import CorruptRecord
from streamactors.broker.quorum.leader_change import leader_change
from streamactors.broker.quorum.raft.raft_messages import EpochEnd
from streamactors.broker.quorum.replica_log import end_of_epoch
from streamactors.broker.quorum.vote_file import FILE_NAME as VOTE_FILE
from streamactors.broker.quorum.vote_file import Election, read_election, write_election
from streamactors.broker.quorum.voter_set import VoterSet, voters_of
from streamactors.broker.quorum.voters_history import VotersHistory
from streamactors.broker.records.batch import RecordBatch, iter_batches
from streamactors.broker.records.builder import build_batch
from streamactors.broker.records.control_batch import control_batch, control_records
from streamactors.broker.records.record import NewRecord
from streamactors.broker.records.validation import AppendOrigin

TOPIC_ID: Final = uuid.UUID(int=1)  # as in Apache Kafka
MAX_FETCH_BYTES: Final = 8 << 20
MAX_PIECE_BYTES: Final = 1 << 20  # of a snapshot
CONFIG: Final = LogConfig(cleanup_policy=(), retention_ms=-1, retention_bytes=-1, max_message_bytes=2**30)


def open_log(logs: LogManager) -> PartitionLog:
    """Return the log of a data folder, a new one if there is none."""
    log = logs.get(METADATA_TOPIC, 0)
    if log is None:
        return logs.create(METADATA_TOPIC, 0, TOPIC_ID, CONFIG)
    log.update_config(CONFIG)
    return log


class MetadataLog:
    """Reads the log into an image, and appends to it."""

    def __init__(self, log: PartitionLog, now_ms: Callable[[], int]) -> None:
        self._log = log
        self._now_ms = now_ms
        self.in_transaction = False
        self._snapshot: EpochEnd | None = None
        self._history = VotersHistory()
        self.on_voters: Callable[[VoterSet | None], object] = lambda _: None
        """Called when the voters, or their addresses, have changed. Set by the owner."""

    @classmethod
    def open(cls, logs: LogManager, now_ms: Callable[[], int]) -> MetadataLog:
        """Return the log of a data folder, a new one if there is none."""
        return cls(open_log(logs), now_ms)

    @property
    def end_offset(self) -> int:
        """Return the offset that the next record gets."""
        return self._log.end_offset

    @property
    def start_offset(self) -> int:
        """Return the offset of the first record that is not only in a snapshot."""
        return self._log.log_start_offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Return whole batches from the one with `offset` on, at least one. Raises BrokerError."""
        try:
            with self._log.read(offset, max_bytes, self._log.end_offset) as found:
                return found.read()
        except OSError as error:
            raise disk_error(self._log, error, f"{self._log.directory} cannot be read") from error

    # --- the voters ---

    def follow_voters(self, node_id: int, directory_id: uuid.UUID | None) -> None:
        """Find the voters that the log names, as the node with this folder sees them. Until then the log names none.

        Raises BrokerError. Cost: reads the log."""
        self._history = history = VotersHistory(node_id, directory_id)
        log = self._log
        kept = snapshots(log.disk.names(log.directory))
        if kept:
            history.restart(voters_of(quorum_of_snapshot(log.disk.read(log.directory / kept[-1][1]))))
        for batch in log.reader.replay(log.log_start_offset, log.end_offset):
            self._note_voters(batch)

    def note_later_voters(self, node_id: int, directory_id: uuid.UUID | None) -> None:
        """The log names no voters. Notice those that a record names later, as the node with this folder sees them."""
        self._history = VotersHistory(node_id, directory_id)

    def _note_voters(self, batch: RecordBatch) -> None:
        """Notice the voters that a batch names."""
        for offset, record in enumerate(control_records(batch) if batch.is_control else (), batch.base_offset):
            if (named := voters_of([record])) is not None:
                self._history.name(offset, named)

    @property
    def voter_set(self) -> VoterSet | None:
        """The voters that the log names last, committed or not; None if it names none."""
        return self._history.newest

    @property
    def voters(self) -> Set[int] | None:
        return self._history.ids

    @property
    def voters_before(self) -> Set[int] | None:
        return self._history.ids_before

    @property
    def voters_offset(self) -> int:
        return self._history.offset

    @property
    def newest_snapshot(self) -> EpochEnd | None:
        """Return (epoch, end offset) of the newest snapshot, None if there is none, or only that of a formatted folder. While the folder cannot be
        listed, because no descriptor is left for example, it is the one that was found last."""
        with suppress(OSError):
            self._snapshot = newest_snapshot(self._log)
        return self._snapshot

    def snapshot_piece(self, snapshot: tuple[int, int], position: int) -> tuple[int, bytes] | None:
        """Return the size of a snapshot, (epoch, end offset), and bytes of it from `position` on. None if it is not the newest,
        because older ones are deleted. Raises StorageError."""
        if snapshot != self.newest_snapshot:
            return None
        epoch, end_offset = snapshot
        path = self._log.directory / snapshot_name(end_offset, epoch)
        file = self._log.disk.file(path)
        try:
            size = file.size()
            return size, file.read_at(MAX_PIECE_BYTES, position) if position < size else b""
        except OSError as error:
            raise disk_error(self._log, error, f"{path} cannot be read") from error
        finally:
            file.close()

    # --- the image ---

    def load(self, image: MetadataImage | None = None, up_to: int | None = None) -> ImageDelta:
        """Return what the records after an image and below `up_to` change, by default the whole log on the empty image.

        `in_transaction` then says whether they end within a transaction, which is left out. Raises BrokerStartError if the log is
        damaged."""
        base = MetadataImage() if image is None else image
        if 0 <= base.offset < self.start_offset - 1:  # a snapshot of the leader has taken the place of the log
            return ImageDelta.between(base, self.load(up_to=up_to).image)
        loader = MetadataLoader(base)
        at, end = base.offset, self.end_offset if up_to is None else up_to
        batches = self._batches(at + 1, end)
        try:
            for at, records, last_offset in batches:  # noqa: B007 - the error below names it
                loader.replay(records, last_offset)
        except OSError as error:
            failed = disk_error(self._log, error, f"{self._log.directory} cannot be read")
            raise failed if isinstance(failed, StorageShortage) else BrokerStartError(str(failed)) from error
        except (CorruptRecord, BrokerError) as error:
            raise BrokerStartError(
                f"the metadata log is damaged at record {at} ({error}); restore {METADATA_TOPIC}-0 from a copy, "
                "or start with another --data folder"
            ) from error
        self.in_transaction = loader.in_transaction
        return loader.take() or ImageDelta(base)

    # --- the replica of the quorum: `quorum.VotersLog` ---

    @property
    def last_epoch(self) -> int:
        """Return the epoch of the last record, 0 without one."""
        return max(self._log.latest_epoch, 0)

    @property
    def known_end(self) -> EpochEnd:
        """See `quorum.replica_log.Log`. A second damage before the records are copied is not known."""
        return max((self.last_epoch, self.end_offset), self._log.lost_end or (0, 0))

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the greatest epoch that is at most `epoch`, and the offset at which it ends; (0, 0) without one."""
        return end_of_epoch(self._log.epochs, self._log.end_offset, self.newest_snapshot, epoch)

    def append(self, records: Iterable[MetadataRecord], epoch: int) -> int:
        """Append records as one batch, not synced yet; return the offset of the last record. Raises BrokerError."""
        now_ms = self._now_ms()
        return self._append(
            build_batch([NewRecord(None, encode_record(record), now_ms) for record in records], leader_epoch=epoch),
            epoch,
        )

    def append_leader_change(self, leader: int, voters: Set[int], granting: Set[int], epoch: int) -> int:
        """Append the records with which an epoch begins, not synced yet; return the offset of the last one. Raises BrokerError."""
        records, named = [leader_change(leader, voters, granting)], self.voter_set
        if self.end_offset == 0 and named is not None:  # a formatted folder: the others read the voters in the log
            records += named.records()
            self._history.name(len(records) - 1, named)
        return self._append(control_batch(records, self._now_ms(), leader_epoch=epoch), epoch)

    def append_voters(self, voters: VoterSet, epoch: int) -> int:
        """Append the record that names the voters, not synced yet; return its offset. Raises BrokerError.

        If the log names none yet (kraft.version 0), a record before says that it names them from now on."""
        records = voters.records() if self.voter_set is None else (voters.record(),)
        offset = self._append(control_batch(records, self._now_ms(), leader_epoch=epoch), epoch)
        self._history.name(offset, voters)
        self.on_voters(voters)
        return offset

    def _append(self, batch: bytearray, epoch: int) -> int:
        log = self._log
        return log.append_as_leader(memoryview(batch), epoch, self._now_ms(), AppendOrigin.COORDINATOR).last_offset

    def append_batches(self, batches: Sequence[bytes | memoryview]) -> None:
        """Append batches of the leader, not synced yet. Raises BrokerError."""
        for each in batches:
            content = memoryview(bytearray(each))
            self._log.append_as_follower(content, self._now_ms())
            known = self.voters_offset
            for batch in iter_batches(content):
                self._note_voters(batch)
            if self.voters_offset != known:
                self.on_voters(self.voter_set)

    def batches(self, offset: int) -> Sequence[bytes]:
        """Return batches from the one with `offset` on. Raises BrokerError."""
        return [self.read(offset, MAX_FETCH_BYTES)]

    def truncate(self, offset: int) -> None:
        """Remove the records and epochs from an offset on, not synced yet. Raises StorageError."""
        truncate_log(self._log, offset, self._now_ms())
        if self._history.truncate(offset):
            self.on_voters(self.voter_set)

    def install(self, epoch: int, end_offset: int, content: bytes | bytearray) -> None:
        """Replace the log by a snapshot of the leader. Raises BrokerError; the old log is then kept."""
        path = self._log.directory / snapshot_name(end_offset, epoch)
        try:
            for _ in decode_snapshot(path, bytes(content)):
                pass
        except (CorruptRecord, MessageError) as error:
            raise StorageError(f"the snapshot {path.name} of the leader is damaged: {error}") from error
        install_snapshot(self._log, epoch, end_offset, content, self._now_ms())
        self._history.restart(voters_of(quorum_of_snapshot(bytes(content))))
        self.on_voters(self.voter_set)

    def bootstrap(self) -> list[MetadataRecord]:
        """Return the records with which a formatted folder has the first controller begin. Raises StorageError if they are damaged."""
        path = self._log.directory.parent / BOOTSTRAP_FILE
        try:
            return list(decode_snapshot(path, self._log.disk.read(path)))
        except FileNotFoundError:
            return []
        except (OSError, CorruptRecord, MessageError) as error:
            raise StorageError(f"{path} cannot be read: {error}") from error

    def finish_installing(self) -> None:
        """Begin the log after its newest snapshot if it must. Raises StorageError."""
        begin_after_snapshot(self._log, self._now_ms())

    def sync(self) -> None:
        """Bring everything to the disk. Raises StorageError."""
        self._log.flush()

    def commit(self, high_watermark: int) -> None:
        """Let readers of the log see the records below this offset."""
        self._log.advance_high_watermark(high_watermark)

    def read_election(self) -> Election:
        """Return what the vote file says. Raises StorageError if it cannot be read."""
        path = self._log.directory / VOTE_FILE
        try:
            return read_election(self._log.disk, self._log.directory)
        except (OSError, ValueError) as error:
            raise StorageError(f"{path} cannot be read: {error}") from error

    def write_election(self, election: Election) -> None:
        """Write the vote file; it is on the disk when this returns. Raises StorageError."""
        try:
            write_election(self._log.disk, self._log.directory, election)
        except OSError as error:
            raise disk_error(self._log, error, f"{self._log.directory / VOTE_FILE} cannot be written") from error

    # --- snapshots ---

    def snapshot(self, image: MetadataImage, more_than_bytes: int) -> None:
        """If the log is larger than this, write the image to a snapshot and delete the log before it. Raises BrokerError."""
        log = self._log
        if log.size_bytes > more_than_bytes and has_news(log, image):
            named = self._history.at(image.offset + 1)
            quorum = () if named is None else named.records()
            write_snapshot(log, image, max(log.epochs.at(image.offset), 0), self._now_ms(), quorum)

    def _batches(self, start: int, end: int) -> Iterator[tuple[int, Iterable[MetadataRecord], int]]:
        """Yield (offset of the first record, records, offset of the last record) of every batch from `start` on, and from 0
        on the same of the newest snapshot before them."""
        log = self._log
        kept = snapshots(log.disk.names(log.directory))
        if start == 0 and kept and kept[-1][0] >= log.log_start_offset:
            start, name = kept[-1]
            path = log.directory / name
            yield start - 1, decode_snapshot(path, log.disk.read(path)), start - 1
        elif log.log_start_offset > start:
            raise CorruptRecord(
                f"it begins at record {log.log_start_offset}, and the snapshot of the records before is missing"
            )
        if log.end_offset < start:
            raise CorruptRecord(f"it ends at record {log.end_offset}, before its snapshot at {start}")
        for batch in log.reader.replay(start, end):
            batch.ensure_valid()  # after a clean stop, recovery has not checked the batches
            yield batch.base_offset, batch_records(batch), batch.last_offset
