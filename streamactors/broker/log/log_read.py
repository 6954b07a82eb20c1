"""Reading: slices of segments for sendfile, offsets by time, aborted transactions.

Owner: PartitionLog. A read finds positions and copies no record; the bytes go from the page cache to the socket. Rules:
a fetch inside a batch begins at the batch (the client filters), the first batch is whole even if it is larger than asked,
and offsets beyond the bound are not there yet. Source: Kafka's UnifiedLog and ListOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, InvalidRequest, OffsetOutOfRange
from streamactors.broker.log.config import LONG_MAX
from streamactors.broker.log.files import LogFile
from streamactors.broker.log.log_core import LogCore
from streamactors.broker.log.scan import read_batch, walk_headers
from streamactors.broker.log.segment import Segment
from streamactors.broker.log.transaction_index import AbortedTransaction
from streamactors.broker.records.batch import RecordBatch, iter_batches

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

REPLAY_BYTES: Final = 1 << 20


class LogSlice:
    """Whole batches in a segment's file: `length` bytes from `position`. Holds the file open until `release`.

    The file may be cut shorter by a truncation meanwhile; a send then comes to its end too early.
    """

    __slots__ = ("_file", "end_offset", "fd", "length", "position")

    def __init__(self, file: LogFile | None, position: int, length: int, end_offset: int) -> None:
        self._file = file
        self.fd = -1 if file is None else file.descriptor()
        """The file's descriptor, -1 of an empty slice; not to be used after `release`."""
        self.position = position
        self.length = length
        self.end_offset = end_offset
        """An upper bound of the offsets in the slice, exclusive: for `aborted_transactions`."""

    def read(self) -> bytes:
        """Return the bytes, copied."""
        return b"" if self._file is None else self._file.read_at(self.length, self.position)

    def release(self) -> None:
        """Let the file go. Must be called once the slice is sent; more calls do nothing."""
        if self._file is not None:
            file, self._file = self._file, None
            file.release()

    def __enter__(self) -> LogSlice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"LogSlice({self.length} bytes at {self.position}, below offset {self.end_offset})"


class ListedOffset(NamedTuple):
    """An answer of ListOffsets; all -1: there is no such offset."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


NOTHING_LISTED: Final = ListedOffset(-1, -1, -1)


class Stretch(NamedTuple):
    """Whole batches in a segment's file, which is held open."""

    file: LogFile
    position: int
    end: int


def _held(segment: Segment, offset: int) -> Stretch:
    """Hold the segment from the batch that has the offset to its end, as of now."""
    position = segment.position_of(offset)[0]
    segment.log.descriptor()  # open from now on, whatever becomes of its name
    segment.log.hold()
    return Stretch(segment.log, position, segment.size)


class LogRead(LogCore):
    """The reading side of a partition's log."""

    __slots__ = ()

    def read(self, offset: int, max_bytes: int, up_to: int, min_one: bool = True) -> LogSlice:
        """Return whole batches from the one that holds `offset`, within one segment and below the offset `up_to`.

        At most max_bytes, but the first batch in any case if `min_one`. Empty at and beyond `up_to`. Raises
        OffsetOutOfRange outside [log start, log end], and OSError. Release the slice.
        """
        with self.lock:
            if not self.log_start_offset <= offset <= self.end_offset:
                raise OffsetOutOfRange(
                    f"{self.name}: offset {offset} is not in the log, which has {self.log_start_offset} to {self.end_offset}"
                )
            up_to = min(up_to, self.end_offset)
            if offset >= up_to:
                return LogSlice(None, 0, 0, offset)
            segment = self.active
            known = self._boundaries.get(offset)
            if known is not None:
                position, size, index = known, 0, len(self.segments) - 1
            else:
                segment, index, position, size, base_offset = self._find(offset)
                if base_offset >= up_to or size == 0:
                    return LogSlice(None, 0, 0, offset)
            segment_end = self._segment_end(index)
            if up_to < segment_end:
                end_offset = up_to
                bound = self._boundaries.get(up_to) if segment is self.active else None
                limit = segment.position_of(up_to)[0] if bound is None else bound
            else:
                end_offset, limit = segment_end, segment.size
            if limit - position > max_bytes:
                cut, cut_offset = segment.last_indexed(position + max_bytes)
                if cut > position:
                    limit, end_offset = cut, min(cut_offset, end_offset)
                else:
                    size = size or segment.position_of(offset)[1]
                    if not min_one and size > max_bytes:
                        return LogSlice(None, 0, 0, offset)
                    limit = min(limit, position + size)
            elif segment is self.active:
                self._note_boundary(end_offset, limit)
            if limit <= position:
                return LogSlice(None, 0, 0, offset)
            segment.log.hold()
            return LogSlice(segment.log, position, limit - position, end_offset)

    def _find(self, offset: int) -> tuple[Segment, int, int, int, int]:
        """Return (segment, its index, position, size, base offset) of the batch that holds the offset, or the next one.

        Size 0: there is none."""
        index = len(self.segments) - 1 if offset >= self.active.base_offset else self._segment_at(offset)
        while True:
            segment = self.segments[index]
            position, size, base_offset = segment.position_of(offset)
            if size or index + 1 == len(self.segments):
                return segment, index, position, size, base_offset
            index += 1  # compaction left nothing at or after the offset here

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch offsets start (inclusive) to end (exclusive), by their markers."""
        found: list[AbortedTransaction] = []
        with self.lock:
            for segment in self.segments[self._segment_at(start) :]:
                segment.load_aborted()
                if segment.aborted.collect(start, end, found):
                    break
        return found

    def list_offset(self, timestamp_ms: int, up_to: int) -> ListedOffset:
        """Return the first offset whose record is not older than the timestamp, if it is below `up_to`.

        Special timestamps: -1 the end (`up_to` itself), -2 and -4 the start, -3 the record with the greatest timestamp,
        -5 the end of tiered storage, which is none. Raises InvalidRequest for others below 0, CorruptMessage, OSError.
        A time is looked for without the lock: records may have to be read and decompressed for it.
        """
        with self.lock:
            if timestamp_ms == LATEST:
                return ListedOffset(up_to, -1, self.epochs.latest)
            if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
                return ListedOffset(self.log_start_offset, -1, self.epochs.at(self.log_start_offset))
        if timestamp_ms == LATEST_TIERED:
            return NOTHING_LISTED
        if timestamp_ms == MAX_TIMESTAMP:
            found = self._greatest_timestamp()
        elif timestamp_ms >= 0:
            found = self._first_since(timestamp_ms)
        else:
            raise InvalidRequest(f"timestamp {timestamp_ms} has no meaning; -1 to -5 and 0 upwards have")
        return found if found.offset < up_to else NOTHING_LISTED

    def _first_since(self, timestamp_ms: int) -> ListedOffset:
        begin = self.log_start_offset
        while True:
            with self.lock:
                segment = self._segment_since(timestamp_ms, begin)
                if segment is None:
                    return NOTHING_LISTED
                begin = self.next_base_offset(segment)
                stretch = _held(segment, segment.times.lookup(timestamp_ms).offset)
            found = self._first_record(stretch, timestamp_ms)
            if found.offset >= 0:
                return found

    def _segment_since(self, timestamp_ms: int, begin: int) -> Segment | None:
        """Return the first segment that ends after `begin` and has a timestamp that is not older."""
        for segment in self.segments[self._segment_at(begin) :]:
            segment.load_times()
            if segment.greatest.timestamp >= timestamp_ms and self.next_base_offset(segment) > begin:
                return segment
        return None

    def _greatest_timestamp(self) -> ListedOffset:
        best: Segment | None = None
        with self.lock:
            for segment in self.segments:
                segment.load_times()
                if segment.greatest.timestamp > (best.greatest.timestamp if best else -1):
                    best = segment
            if best is None:
                return NOTHING_LISTED
            timestamp, offset = best.greatest
            stretch = _held(best, offset)
        return self._first_record(stretch, timestamp)

    def _first_record(self, stretch: Stretch, timestamp_ms: int) -> ListedOffset:
        """Return the first record of a held stretch that is not older, and not before the log's start; let it go."""
        file, position, end = stretch
        try:
            for at, header in walk_headers(file, position, end):
                if header.max_timestamp < timestamp_ms or header.next_offset <= self.log_start_offset:
                    continue
                batch = read_batch(file, at, header.size)
                try:
                    for record in batch.records():
                        # a record may claim a time beyond all times: only headers are looked at when it is appended
                        if timestamp_ms <= record.timestamp <= LONG_MAX and record.offset >= self.log_start_offset:
                            return ListedOffset(record.offset, record.timestamp, header.leader_epoch)
                except BrokerError:  # nor may its records be readable; one producer must not spoil this for everybody
                    first = max(header.base_offset, self.log_start_offset)
                    return ListedOffset(first, header.max_timestamp, header.leader_epoch)
            return NOTHING_LISTED
        finally:
            file.release()

    def epoch_end_offset(self, epoch: int) -> tuple[int, int]:
        """Return (epoch, end offset) of the greatest epoch not above the asked one that wrote here; (-1, -1) if unknown."""
        with self.lock:
            return self.epochs.end_offset(epoch, self.end_offset)

    def replay(self, start: int, end: int) -> Iterator[RecordBatch]:
        """Yield the batches that hold offsets start (inclusive) to end (exclusive), read in large pieces.

        The lock is not held between them. Raises OffsetOutOfRange, CorruptMessage and OSError."""
        offset = start
        while offset < end:
            with self.read(offset, REPLAY_BYTES, end) as piece:
                data = piece.read()
            if not data:
                return
            for batch in iter_batches(data):
                offset = batch.next_offset
                yield batch
