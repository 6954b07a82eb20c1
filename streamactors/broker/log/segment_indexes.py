"""The three indexes of one segment, in memory while they are needed and in their files otherwise.

Owner: Segment, under its log's lock. Source: Kafka's log format."""

from __future__ import annotations

from pathlib import Path

from streamactors.broker.log.config import LogConfig
from streamactors.broker.log.files import Disk
from streamactors.broker.log.offset_index import OffsetIndex
from streamactors.broker.log.segment_files import (
    INDEX_SUFFIX,
    MAX_RELATIVE_OFFSET,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    segment_path,
)
from streamactors.broker.log.time_index import TimeIndex
from streamactors.broker.log.transaction_index import TransactionIndex


class SegmentIndexes:
    """Offset, time and transaction index. `saved`: the files know all that memory does. `from_file`: the offsets are what
    a file said; it has no checksum, so that a batch must be looked at before it is believed to be where the index says."""

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
        """Have the offset index in memory; False if the file is missing or damaged, so that it must be made again."""
        if self._offsets_loaded:
            return True
        self._offsets_loaded = True
        self.from_file = segment_size > 0 and self.offsets.load(self._disk, segment_size)
        return segment_size == 0 or self.from_file

    def load_times(self, segment_size: int) -> bool:
        """Have the time index in memory; False if it must be made again."""
        if self._times_loaded:
            return True
        self._times_loaded = True
        return segment_size == 0 or self.times.load(self._disk, self._base_offset + MAX_RELATIVE_OFFSET + 1)

    def load_aborted(self) -> None:
        """Have the transaction index in memory. What was aborted cannot be seen in headers: only recovery makes it again."""
        if not self._aborted_loaded:
            self._aborted_loaded = True
            self.aborted.load(self._disk, self._base_offset)

    def save(self) -> None:
        """Write the files if memory knows more than they do. Raises OSError."""
        if not self.saved:
            self.offsets.save(self._disk)
            self.times.save(self._disk)
            self.aborted.save(self._disk)
            self.saved = True

    def unload(self) -> None:
        """Let the entries go, if the files have them."""
        if self.saved:
            self.offsets.clear()
            self.times.clear()
            self.aborted.clear()
            self._offsets_loaded = self._times_loaded = self._aborted_loaded = False

    def forget_batches(self) -> None:
        """Empty offset and time index, to take the batches in again."""
        self.offsets.clear()
        self.times.clear()
        self._offsets_loaded = self._times_loaded = True
        self.saved = self.from_file = False

    def forget_all(self) -> None:
        """Empty all three."""
        self.forget_batches()
        self.aborted.clear()
        self._aborted_loaded = True

    def sync(self) -> None:
        """Return when the files are on the disk, if they are what memory knows. Raises OSError."""
        if self.saved:
            for path in self.paths():
                self._disk.sync_file(path)

    def paths(self) -> tuple[Path, Path, Path]:
        return self.offsets.path, self.times.path, self.aborted.path
