"""The segments of one log, in order, and the condemned segments that wait for their removal.

Owner: LogCore, under the log's lock. The last segment is the active one. Files of removed segments are renamed to .deleted
at once and deleted after file.delete.delay.ms, because slices may still be sent from them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from streamactors.broker.log import logger
from streamactors.broker.log.partition.log_folder import LogFolder
from streamactors.broker.log.producers.producer_replay import find_aborted
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.segment_files import DELETED_SUFFIX, snapshot_path
from streamactors.broker.log.segments.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from threading import RLock

BOUNDARIES: Final = 64

T = TypeVar("T")


class SegmentList:
    """Segments by offset. `all` and `active` may be read from any thread."""

    __slots__ = ("_condemned", "_folder", "_guard", "active", "all", "bases", "boundaries")

    def __init__(self, segments: list[Segment], folder: LogFolder, guard: RLock) -> None:
        self._folder = folder
        self._guard = guard
        self._condemned: list[tuple[int, Segment]] = []  # with the time when the files may be removed
        self.boundaries: dict[int, int] = {}
        """Offset -> position of the batch that begins there, for the ends of recent reads and flushes in the active segment.
        The next read usually begins at one of them."""
        for segment in segments:
            segment.log.guard = guard
        self.replace(segments)

    def replace(self, segments: list[Segment]) -> None:
        """Replace all segments by these, at least one."""
        segments[-1].log.guard = self._guard
        self.boundaries.clear()
        self.all = segments
        self.bases = [segment.base_offset for segment in segments]
        self.active = segments[-1]

    def index_at(self, offset: int) -> int:
        """Return the index of the segment whose range contains the offset."""
        return max(bisect_right(self.bases, offset) - 1, 0)

    def end_of(self, index: int, log_end: int) -> int:
        """Return the exclusive end of the segment's range of offsets."""
        return self.bases[index + 1] if index + 1 < len(self.bases) else log_end

    def note_boundary(self, offset: int, position: int) -> None:
        """Remember where a batch of the active segment begins, or will begin."""
        boundaries = self.boundaries
        if offset not in boundaries:
            if len(boundaries) >= BOUNDARIES:
                del boundaries[next(iter(boundaries))]
            boundaries[offset] = position

    def transactions_of(self, segment: Segment) -> TransactionIndex:
        """Load and return the segment's transaction index; rebuild a damaged one. Raises OSError."""
        if not segment.load_aborted():
            logger.warning("%s is damaged and is rebuilt from the batches", segment.aborted.path)
            folder, index = self._folder, self.all.index(segment)
            segment.replace_aborted(find_aborted(folder.disk, folder.path, self.all, index))
        return segment.aborted

    def condemn(self, segments: Sequence[Segment], due_ms: int, then: Callable[[], T], *, keep_snapshot: int = -1) -> T:
        """Rename the segments' files and call `then`, which does what belongs to it. Remove them after `due_ms`, with their producer snapshots.

        Raises OSError, of `then` too, and then the files have their names again."""
        folder = self._folder
        renamed: list[Segment] = []
        try:
            for segment in segments:
                segment.change_suffix("", DELETED_SUFFIX)
                renamed.append(segment)
                if segment.base_offset != keep_snapshot:
                    folder.disk.remove(snapshot_path(folder.path, segment.base_offset))
            made = then()
        except OSError:
            for segment in reversed(renamed):
                segment.change_suffix(DELETED_SUFFIX, "")
            raise
        for segment in segments:
            segment.log.close()
            self._condemned.append((due_ms, segment))
        folder.changed = True
        return made

    @property
    def condemned(self) -> int:
        """Number of segments whose files wait to be removed."""
        return len(self._condemned)

    def take_condemned(self, now_ms: int | None) -> list[Segment]:
        """Remove and return the segments whose files may be deleted now, or all without a time."""
        due = [segment for due_ms, segment in self._condemned if now_ms is None or due_ms <= now_ms]
        self._condemned = [entry for entry in self._condemned if now_ms is not None and entry[0] > now_ms]
        return due

    def put_back_condemned(self, segments: Sequence[Segment], due_ms: int | None) -> None:
        """Undo `take_condemned` after a removal that failed: the next one tries again."""
        self._condemned += [(0 if due_ms is None else due_ms, each) for each in segments]

    def close_idle(self) -> int:
        """Close idle descriptors and drop the indexes of closed segments. The next use opens or loads them again.

        Returns the number of descriptors that stay open."""
        for segment in self.all[:-1]:
            segment.unload_indexes()
        return sum(not segment.log.close_if_idle() for segment in self.all if segment.log.is_open)

    def close(self) -> None:
        """Close the files. Held slices can still be sent."""
        for segment in self.all:
            segment.log.close()
