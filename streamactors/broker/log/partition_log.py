"""The log of one partition: what the broker's handlers, coordinators and replicas call.

Owner: LogManager makes, keeps and closes it. Thread-safe: one lock per log, held for microseconds. The parts are in
files of their own: log_core (state, segments), log_append, log_read, log_trim, log_flush; opening is in log_loader.
Format on disk, offsets and errors are Kafka's; docs/broker.md lists what differs.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Final

from streamactors.broker.errors import StorageError
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.files import Disk
from streamactors.broker.log.flusher import Flusher, FlushPool
from streamactors.broker.log.leader_epochs import LeaderEpochs
from streamactors.broker.log.log_core import COMPACTED
from streamactors.broker.log.log_flush import LogFlush
from streamactors.broker.log.log_loader import Checkpoints, LoadedLog, load_log
from streamactors.broker.log.log_read import LogRead
from streamactors.broker.log.partition_metadata import FILE_NAME as METADATA
from streamactors.broker.log.partition_metadata import decode_metadata, encode_metadata
from streamactors.broker.log.producer_snapshot import snapshot_offsets
from streamactors.broker.log.producer_state import ProducerEntry, ProducerState
from streamactors.broker.log.segment import Segment

NOTHING_KNOWN: Final = Checkpoints()


class PartitionLog(LogRead, LogFlush):
    """An append-only sequence of records with offsets, in segments on disk."""

    __slots__ = ()

    flusher: Flusher

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        *,
        pool: FlushPool,
        now_ms: int,
        like: PartitionLog | None = None,
    ) -> PartitionLog:
        """Make the folder of an empty log. Raises OSError.

        `like` is one of the same topic that was made just now: what would be the same in both is then one file with two
        names, since making files is what takes the time. They are only ever replaced, never written in place."""
        disk.make_directory(directory)
        segment = Segment.create(disk, directory, 0, config, now_ms)
        loaded = LoadedLog([segment], ProducerState(now_ms=now_ms), LeaderEpochs(), 0, 0, 0, recovered=False)
        made = cls._made(disk, directory, topic, partition, topic_id, config, pool, loaded, 0)
        if topic_id is not None:
            if like is None or not disk.link(like.directory / METADATA, directory / METADATA):
                disk.write(directory / METADATA, encode_metadata(topic_id))
            made._unsynced.add(directory / METADATA)
        made.configured = True
        made._mark_compacted()
        return made

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        config: LogConfig,
        checkpoints: Checkpoints = NOTHING_KNOWN,
        *,
        pool: FlushPool,
        now_ms: int,
    ) -> PartitionLog:
        """Open a folder that is there, recovering what a crash has left. Raises OSError."""
        loaded = load_log(disk, directory, f"{topic}-{partition}", config, checkpoints, now_ms)
        try:
            topic_id = decode_metadata(disk.read(directory / METADATA))
        except FileNotFoundError:
            topic_id = None
        opened = cls._made(
            disk, directory, topic, partition, topic_id, config, pool, loaded, checkpoints.high_watermark
        )
        try:
            opened.cut_to = int(disk.read(directory / COMPACTED))
        except (FileNotFoundError, ValueError):
            pass  # not compacted, or not cut back since
        if not loaded.recovered:
            opened._found_in_order = opened._shape()
        if loaded.recovered and opened.unflushed:
            opened.flush()  # what a crash of the process left in the page cache is not on the disk yet
        return opened

    @classmethod
    def _made(
        cls,
        disk: Disk,
        directory: Path,
        topic: str,
        partition: int,
        topic_id: uuid.UUID | None,
        config: LogConfig,
        pool: FlushPool,
        loaded: LoadedLog,
        high_watermark: int,
    ) -> PartitionLog:
        made = cls(
            disk=disk,
            directory=directory,
            topic=topic,
            partition=partition,
            topic_id=topic_id,
            config=config,
            segments=loaded.segments,
            producers=loaded.producers,
            epochs=loaded.epochs,
            log_start_offset=loaded.log_start_offset,
            end_offset=loaded.end_offset,
            recovery_point=loaded.recovery_point,
            high_watermark=high_watermark,
        )
        made.flusher = Flusher(made, pool)
        return made

    def _rolled(self) -> None:
        self.flusher.request_soon()

    def _shape(self) -> tuple[int, ...]:
        """What is different if anything was changed."""
        return self.end_offset, self.generation, *self._bases, len(self._condemned), len(self._unsynced)

    def roll(self, now_ms: int) -> None:
        """Begin a new segment, unless the active one is empty. Raises StorageError."""
        with self.lock:
            self._check_online()
            self._roll(now_ms)

    def producers(self, now_ms: int) -> list[ProducerEntry]:
        """Return the producers that the log remembers, for DescribeProducers; not to be changed."""
        with self.lock:
            return list(self.producer_state.entries.values())

    def ongoing_transaction(self, producer_id: int) -> int | None:
        """Return the first offset of the producer's open transaction here, None without one."""
        with self.lock:
            entry = self.producer_state.entries.get(producer_id)
            return entry.transaction_first_offset if entry is not None and entry.transaction_first_offset >= 0 else None

    def delete(self, renamed: Path) -> None:
        """Rename the folder, out of the way of a new log of the name, and stop. Slices that are held can still be sent.

        The caller removes the folder later. Raises OSError."""
        with self.lock:
            self.closed = self.deleted = True
            self.offline = self.offline or StorageError(f"{self.name}: the log was deleted")
            for segment in self.segments:
                segment.log.close()
            self.disk.rename(self.directory, renamed)

    def close(self) -> None:
        """Put everything on the disk, indexes and producer snapshot included, and close the files. Raises StorageError.

        After that appends are refused; slices that are held can still be sent."""
        with self.lock:
            if self.closed:
                return
            self.closed = True
            failure = self.offline
            self.offline = self.offline or StorageError(f"{self.name}: the log is closed")
        try:
            # an empty log, or one that was not touched, has nothing to lose
            if failure is None and self.end_offset > 0 and self._shape() != self._found_in_order:
                with self.lock:
                    self.active.close_for_append()
                    for segment in self.segments:
                        segment.save_indexes()
                    if snapshot_offsets(self.disk, self.directory)[-1:] != [self.end_offset]:
                        self._write_snapshot()
                self.flush()
                self.disk.sync_directory(self.directory)
            self.closed_in_order = failure is None
        except OSError as error:
            raise StorageError(
                f"{self.name}: cannot close the log: {error.strerror or error} ({self.directory})"
            ) from error
        finally:
            self.remove_condemned()
            self.abandon()
