"""One segment: a file of batches, its three indexes, and its cached offsets and timestamps.

Owner: its log, under that log's lock; slices hold its file. Source: Kafka's log format.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from streamactors.broker.errors import CorruptMessage
from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk, LogFile
from streamactors.broker.log.segments.scan import find_batch, walk_headers
from streamactors.broker.log.segments.segment_files import LOG_SUFFIX, MAX_RELATIVE_OFFSET, segment_path
from streamactors.broker.log.segments.segment_indexes import SegmentIndexes
from streamactors.broker.log.segments.time_index import TimestampOffset
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.header import Buffer

if TYPE_CHECKING:
    from streamactors.broker.log.segments.offset_index import OffsetIndex
    from streamactors.broker.log.segments.time_index import TimeIndex
    from streamactors.broker.log.segments.transaction_index import TransactionIndex


class Segment:
    """A segment in memory. The indexes of a closed segment are loaded on first use and can be unloaded."""

    __slots__ = (
        "_appendable",
        "_bytes_since_index",
        "_disk",
        "_index_interval",
        "_indexes",
        "_jitter_ms",
        "aborted",
        "base_offset",
        "created_ms",
        "first_timestamp",
        "greatest",
        "log",
        "offsets",
        "size",
        "times",
    )

    def __init__(
        self,
        disk: Disk,
        log: LogFile,
        base_offset: int,
        config: LogConfig,
        created_ms: int,
        extra: str,
        *,
        is_new: bool,
    ) -> None:
        self._disk = disk
        self.log = log
        self.base_offset = base_offset
        self.size = 0
        self.created_ms = created_ms
        self.first_timestamp = -1
        self.greatest = TimestampOffset(-1, base_offset)
        self._indexes = SegmentIndexes(disk, log.path.parent, base_offset, config, extra, on_disk=not is_new)
        self.offsets, self.times, self.aborted = self._indexes.offsets, self._indexes.times, self._indexes.aborted
        self._index_interval = config.index_interval_bytes
        self._bytes_since_index = 0
        self._appendable = is_new
        # The jitter spreads the rolls of many partitions over time.
        self._jitter_ms = random.randrange(config.segment_jitter_ms + 1) if config.segment_jitter_ms > 0 else 0

    @classmethod
    def create(
        cls, disk: Disk, directory: Path, base_offset: int, config: LogConfig, now_ms: int, extra: str = ""
    ) -> Segment:
        """Create the file and return the empty segment. Raises OSError."""
        log = disk.create(segment_path(directory, base_offset, LOG_SUFFIX, extra))
        return cls(disk, log, base_offset, config, now_ms, extra, is_new=True)

    @classmethod
    def existing(cls, disk: Disk, directory: Path, base_offset: int, config: LogConfig, extra: str = "") -> Segment:
        """Return the segment of existing files, without reading them."""
        path = segment_path(directory, base_offset, LOG_SUFFIX, extra)
        segment = cls(disk, disk.file(path), base_offset, config, disk.modified_ms(path), extra, is_new=False)
        segment.size = disk.size(path)
        return segment

    def append(self, batch: Buffer, size: int, last_offset: int, max_timestamp: int) -> None:
        """Write complete batches at the end. After OSError only bytes beyond `size` may have changed."""
        position = self.size
        self.log.write_at(batch, position)
        self.note(position, size, last_offset, max_timestamp)
        self.size = position + size

    def note(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        """Add a batch to the indexes, with an entry if index.interval.bytes have passed since the last entry."""
        if max_timestamp > self.greatest.timestamp:
            self.greatest = TimestampOffset(max_timestamp, last_offset)
        if position == 0:
            self.first_timestamp = max_timestamp
        if self._bytes_since_index > self._index_interval:
            self.offsets.append(last_offset, position)
            self.times.append(*self.greatest)
            self._bytes_since_index = 0
        self._bytes_since_index += size

    def must_roll(self, size: int, last_offset: int, max_timestamp: int, now_ms: int, config: LogConfig) -> bool:
        """Whether the batch must go into a new segment, because of size, age or a full index."""
        if not self._appendable:
            self.reopen_for_append()
        filled = self.size
        if filled == 0:
            return last_offset - self.base_offset > MAX_RELATIVE_OFFSET
        if filled + size > config.segment_bytes:
            return True
        first_timestamp = self.first_timestamp
        if first_timestamp >= 0 and max_timestamp >= 0:
            age_ms = max_timestamp - first_timestamp
        else:
            age_ms = now_ms - self.created_ms
        return (
            age_ms > config.roll_ms - self._jitter_ms
            or last_offset - self.base_offset > MAX_RELATIVE_OFFSET
            # A full index matters only if this batch needs an entry.
            or (self._bytes_since_index > self._index_interval and (self.offsets.is_full or self.times.is_full))
        )

    def position_of(self, offset: int) -> tuple[int, int, int]:
        """Return (position, size, base offset) of the batch that holds the offset, or of the next one after it.

        (segment's size, 0, -1) if the segment has none."""
        self.load_offsets()
        try:
            return find_batch(self.log, offset, *self.offsets.lookup(offset), self.size)
        except CorruptMessage:
            if not self._indexes.from_file:
                raise  # The index did not come from a file, so the log file is damaged.
            self.rebuild_indexes()
            return find_batch(self.log, offset, *self.offsets.lookup(offset), self.size)

    def last_indexed(self, limit: int) -> tuple[int, int]:
        """Return (position, last offset) of the last indexed batch that begins at or before the limit.

        (0, base offset - 1) if there is none."""
        position, last_offset = self.offsets.last_within(limit)
        if not position:
            return position, last_offset
        self.position_of(last_offset)  # Check the entry; this rebuilds a wrong index.
        return self.offsets.last_within(limit)

    def close_for_append(self) -> None:
        """Write the indexes, with the final time entry. The files are not synced: see `sync`."""
        if self._appendable:
            self.times.append(*self.greatest)
            self._indexes.save()
            self._appendable = False

    def save_indexes(self) -> None:
        """Write the index files if they are out of date."""
        self._indexes.save()

    def reopen_for_append(self) -> None:
        """Allow appends again. The index files are out of date until the next close writes them."""
        self.load_offsets()
        self.load_times()
        self._bytes_since_index = self.size - self.offsets.last_position
        self._indexes.saved = False
        self._appendable = True
        if self.size and self.first_timestamp < 0:
            self.first_timestamp = next(
                (header.max_timestamp for _, header in walk_headers(self.log, 0, self.size)), -1
            )

    def next_offset(self) -> int | None:
        """Return the offset after the last batch, None if the end of the file is damaged."""
        position, offset = 0, self.base_offset
        try:
            self.load_offsets()
            position = self.offsets.last_position
            for at, header in walk_headers(self.log, position, self.size):
                position, offset = at + header.size, header.next_offset
                if header.max_timestamp > self.greatest.timestamp:
                    self.greatest = TimestampOffset(header.max_timestamp, header.last_offset)
        except CorruptMessage:
            return None
        return offset if position == self.size else None

    def load_offsets(self) -> None:
        """Load the offset index. A missing or damaged index is rebuilt from the batch headers."""
        if not self._indexes.load_offsets(self.size):
            self.rebuild_indexes()

    def load_times(self) -> None:
        """Load the time index, and with it the greatest timestamp of a closed segment."""
        if self._indexes.load_times(self.size):
            self.greatest = max(self.greatest, self.times.last)
        else:
            self.rebuild_indexes()

    def load_aborted(self) -> bool:
        """Load the transaction index. Return False if its file is damaged. Raises OSError.

        Batch headers are not enough to rebuild it: see `SegmentList.transactions_of`."""
        return self._indexes.load_aborted()

    def replace_aborted(self, entries: Iterable[AbortedTransaction]) -> None:
        """Replace the transaction index and its file. Raises OSError."""
        self._indexes.replace_aborted(entries)

    def rebuild_indexes(self) -> None:
        """Rebuild offset and time index from the batch headers. Raises OSError, and then the next use rebuilds them."""
        self._forget_batches()
        try:
            for position, header in walk_headers(self.log, 0, self.size):
                self.note(position, header.size, header.last_offset, header.max_timestamp)
        except OSError:
            self._indexes.must_load()
            raise
        self.times.append(*self.greatest)
        if not self._appendable:
            self._indexes.save()

    def reset_indexes(self) -> None:
        """Clear all indexes and cached values, before the batches are added again."""
        self._forget_batches()
        self._indexes.forget_all()
        self._appendable = True

    def _forget_batches(self) -> None:
        self._indexes.forget_batches()
        self.greatest = TimestampOffset(-1, self.base_offset)
        self.first_timestamp = -1
        self._bytes_since_index = 0

    def unload_indexes(self) -> None:
        """Drop the index entries of a closed segment. The next use loads them again."""
        self._indexes.unload()

    def truncate(self, position: int, offset: int) -> None:
        """Truncate the file to the position where the batch of the offset begins. Raises OSError.

        The transaction index must be loaded."""
        self.load_offsets()
        self.load_times()
        self.log.truncate(position)
        self.size = position
        self.offsets.truncate(position)
        self.times.truncate(offset)
        self.aborted.truncate(offset)
        start = self.offsets.last_position
        self.greatest = self.times.last
        for _, header in walk_headers(self.log, start, position):
            if header.max_timestamp > self.greatest.timestamp:
                self.greatest = TimestampOffset(header.max_timestamp, header.last_offset)
        if position == 0:
            self.first_timestamp = -1
        self.reopen_for_append()

    def sync(self) -> None:
        """Sync the batches, and the index files of a closed segment. Raises OSError."""
        self.log.sync()
        self._indexes.sync()

    def paths(self) -> tuple[Path, ...]:
        """Paths of the files that a segment can have."""
        return self.log.path, *self._indexes.paths()

    def change_suffix(self, old: str, new: str) -> None:
        """Rename the files. The .log file is last: its name tells whether the rename is complete.

        Raises OSError, and then the files have their old names again."""
        owners: tuple[OffsetIndex | TimeIndex | TransactionIndex | LogFile, ...] = (
            self.offsets,
            self.times,
            self.aborted,
            self.log,
        )
        before = [owner.path for owner in owners]
        try:
            for owner, path in zip(owners, before, strict=True):
                renamed = path.with_name(path.name.removesuffix(old) + new)
                if self._disk.exists(path):
                    self._disk.rename(path, renamed)
                owner.path = renamed
        except OSError:
            for owner, path in zip(owners, before, strict=True):
                if owner.path != path and self._disk.exists(owner.path):
                    self._disk.rename(owner.path, path)
                owner.path = path
            raise

    def earliest_timestamp(self) -> int:
        """Greatest timestamp of the first batch, or without one the creation time, in epoch milliseconds."""
        if self.first_timestamp < 0 and self.size:
            self.first_timestamp = next(
                (header.max_timestamp for _, header in walk_headers(self.log, 0, self.size)), -1
            )
        return self.first_timestamp if self.first_timestamp >= 0 else self.created_ms

    def largest_timestamp(self) -> int:
        """Greatest record timestamp, or without one the modification time of the file, in epoch milliseconds."""
        self.load_times()
        if self.greatest.timestamp >= 0:
            return self.greatest.timestamp
        return self._disk.modified_ms(self.log.path)

    def __repr__(self) -> str:
        return f"Segment({self.log.path.name}, {self.size} bytes)"
