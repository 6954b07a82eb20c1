"""The three indexes of one segment, loaded on demand from their files.

Owner: Segment, under its log's lock. Source: Kafka's log format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.disk import Disk
from streamactors.broker.log.segments.offset_index import OffsetIndex
from streamactors.broker.log.segments.segment_files import (
    INDEX_SUFFIX,
    MAX_RELATIVE_OFFSET,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from streamactors.broker.log.segments.time_index import TimeIndex
from streamactors.broker.log.segments.transaction_index import AbortedTransaction, TransactionIndex


class SegmentIndexes:
    """Offset, time and transaction index. `saved`: the files are up to date. `from_file`: the offset index was loaded from its
    file, which has no checksum, so a lookup must check the batch at the position."""

    __slots__ = (
        "_aborted_loaded",
        "_base_offset",
        "_disk",
        "_offsets_loaded",
        "_times_loaded",
        "aborted",
        "from_file",
        "offsets",
        "saved",
        "times",
    )

    def __init__(
        self, disk: Disk, directory: Path, base_offset: int, config: LogConfig, extra: str, *, on_disk: bool
    ) -> None:
        self._disk = disk
        self._base_offset = base_offset
        max_bytes = config.segment_index_bytes
        self.offsets = OffsetIndex(segment_path(directory, base_offset, INDEX_SUFFIX, extra), base_offset, max_bytes)
        self.times = TimeIndex(segment_path(directory, base_offset, TIME_INDEX_SUFFIX, extra), base_offset, max_bytes)
        self.aborted = TransactionIndex(segment_path(directory, base_offset, TRANSACTION_INDEX_SUFFIX, extra))
        self.saved = on_disk
        self.from_file = False
        self._offsets_loaded = self._times_loaded = self._aborted_loaded = not on_disk

    def load_offsets(self, segment_size: int) -> bool:
        """Load the offset index. Return False if the file is missing or damaged and the index must be rebuilt."""
        if self._offsets_loaded:
            return True
        self.from_file = segment_size > 0 and self.offsets.load(self._disk, segment_size)
        self._offsets_loaded = True  # only now: a file that cannot be opened at the moment is read by the next call
        return segment_size == 0 or self.from_file

    def load_times(self, segment_size: int) -> bool:
        """Load the time index. Return False if it must be rebuilt."""
        if self._times_loaded:
            return True
        loaded = segment_size == 0 or self.times.load(self._disk, self._base_offset + MAX_RELATIVE_OFFSET + 1)
        self._times_loaded = True
        return loaded

    def load_aborted(self) -> bool:
        """Load the transaction index. Return False if the file is damaged. Raises OSError."""
        if not self._aborted_loaded:
            self._aborted_loaded = self.aborted.load(self._disk, self._base_offset)
        return self._aborted_loaded

    def replace_aborted(self, entries: Iterable[AbortedTransaction]) -> None:
        """Replace a damaged transaction index and its file. Raises OSError."""
        self.aborted.clear()
        for entry in entries:
            self.aborted.append(entry)
        self._aborted_loaded = True
        self.aborted.save(self._disk)

    def save(self) -> None:
        """Write the files if they are out of date. Raises OSError."""
        if not self.saved:
            self.offsets.save(self._disk)
            self.times.save(self._disk)
            if self._aborted_loaded:  # An index that is not loaded is up to date in its file.
                self.aborted.save(self._disk)
            self.saved = True

    def unload(self) -> None:
        """Drop the entries if the files are up to date."""
        if self.saved:
            self.offsets.clear()
            self.times.clear()
            self.aborted.clear()
            self._offsets_loaded = self._times_loaded = self._aborted_loaded = False

    def forget_batches(self) -> None:
        """Clear offset and time index, before the batches are added again."""
        self.offsets.clear()
        self.times.clear()
        self._offsets_loaded = self._times_loaded = True
        self.saved = self.from_file = False

    def must_load(self) -> None:
        """Have the next use load or rebuild offset and time index, because they are not complete."""
        self.offsets.clear()
        self.times.clear()
        self._offsets_loaded = self._times_loaded = False

    def forget_all(self) -> None:
        """Clear all three indexes."""
        self.forget_batches()
        self.aborted.clear()
        self._aborted_loaded = True

    def sync(self) -> None:
        """Sync the files if they are up to date. Raises OSError."""
        if self.saved:
            for path in self.paths():
                self._disk.sync_file(path)

    def paths(self) -> tuple[Path, Path, Path]:
        return self.offsets.path, self.times.path, self.aborted.path
