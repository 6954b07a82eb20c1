"""Reads of a log: slices of segments for sendfile, offsets by timestamp, aborted transactions.

Owner: PartitionLog. A read finds file positions and copies no records; sendfile moves the bytes from the page cache to the
socket. Rules: a fetch from the middle of a batch returns the whole batch (the client filters), the first batch is complete
even if it exceeds the limit, and offsets beyond the bound are invisible. Source: Kafka's UnifiedLog and ListOffsets.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, InvalidRequest, OffsetOutOfRange
from streamactors.broker.log.config import LONG_MAX
from streamactors.broker.log.disk import LogFile
from streamactors.broker.log.partition.log_core import LogCore
from streamactors.broker.log.segments.scan import read_batch, walk_headers
from streamactors.broker.log.segments.segment import Segment
from streamactors.broker.log.segments.transaction_index import AbortedTransaction
from streamactors.broker.records.batch import RecordBatch, iter_batches

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5

REPLAY_BYTES: Final = 1 << 20


class LogSlice:
    """Complete batches in a segment's file: `length` bytes from `position`. Holds the file open until `release`.

    A truncation can shorten the file meanwhile. A send then reaches the end of the file early.
    """

    __slots__ = ("_file", "end_offset", "fd", "length", "position")

    def __init__(self, file: LogFile | None, position: int, length: int, end_offset: int) -> None:
        self._file = file
        self.fd = -1 if file is None else file.descriptor()
        """The file's descriptor, -1 for an empty slice. Do not use it after `release`."""
        self.position = position
        self.length = length
        self.end_offset = end_offset
        """Exclusive upper bound of the offsets in the slice, for `aborted_transactions`."""

    def read(self) -> bytes:
        """Return a copy of the bytes."""
        return b"" if self._file is None else self._file.read_at(self.length, self.position)

    def narrow(self, start: int, length: int, end_offset: int) -> None:
        """Keep `length` bytes from the byte `start` of the slice."""
        self.position += start
        self.length = length
        self.end_offset = end_offset

    def release(self) -> None:
        """Release the file. Call it once the slice is sent; further calls do nothing."""
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
    """An answer of ListOffsets. All fields are -1 if no offset was found."""

    offset: int
    timestamp_ms: int
    leader_epoch: int


NOTHING_LISTED: Final = ListedOffset(-1, -1, -1)


class HeldRange(NamedTuple):
    """Complete batches in a segment's file, which is held open."""

    file: LogFile
    position: int
    end: int


def _held(segment: Segment, offset: int) -> HeldRange:
    """Hold the segment from the batch with the offset to the current end."""
    position = segment.position_of(offset)[0]
    segment.log.descriptor()  # Opened now, because the file may be renamed or removed later.
    segment.log.hold()
    return HeldRange(segment.log, position, segment.size)


def _greatest_record(held: HeldRange, begin: int, up_to: int) -> ListedOffset:
    """Return the first record with the greatest timestamp in [begin, up_to) of a range.

    The headers name the batch. Only it and the batch that begins before `begin` are read whole."""
    file, position, end = held
    best, likely_at, likely = NOTHING_LISTED, 0, None
    for at, header in walk_headers(file, position, end):
        if header.base_offset >= up_to:
            break
        if header.next_offset <= begin or not header.count:
            continue
        if header.base_offset < begin:
            best = _greatest_in(file, at, header, begin)
        elif likely is None or header.max_timestamp > likely.max_timestamp:
            likely_at, likely = at, header
    if likely is not None and likely.max_timestamp > best.timestamp_ms:
        best = max(best, _greatest_in(file, likely_at, likely, begin), key=lambda each: each.timestamp_ms)
    return best


def _greatest_in(file: LogFile, at: int, header: RecordBatch, begin: int) -> ListedOffset:
    """Return the first record with the greatest timestamp of the batch, from the offset `begin` on."""
    best, epoch = NOTHING_LISTED, header.leader_epoch
    try:
        for record in read_batch(file, at, header.size).records():
            if record.offset >= begin and best.timestamp_ms < record.timestamp <= LONG_MAX:
                best = ListedOffset(record.offset, record.timestamp, epoch)
    except BrokerError:  # Damaged records of one producer must not fail the whole search.
        return ListedOffset(max(header.base_offset, begin), header.max_timestamp, epoch)
    return best


class LogReader:
    """Reads the log of a leader or a follower."""

    __slots__ = ("_files", "_log")

    def __init__(self, log: LogCore) -> None:
        self._log = log
        self._files = log.segment_list

    def read(self, offset: int, max_bytes: int, up_to: int, min_one: bool = True) -> LogSlice:
        """Return complete batches from the one that holds `offset`, within one segment and below the offset `up_to`.

        The slice has at most max_bytes, but always the first batch if `min_one`. It is empty if `offset` >= `up_to`. The
        caller releases it. Raises OffsetOutOfRange outside [log start, log end], and OSError.
        """
        log, files = self._log, self._files
        with log.lock:
            if not log.log_start_offset <= offset <= log.end_offset:
                raise OffsetOutOfRange(
                    f"{log.name}: offset {offset} is outside the log, which has offsets {log.log_start_offset} to {log.end_offset}"
                )
            up_to = min(up_to, log.end_offset)
            if offset >= up_to:
                return LogSlice(None, 0, 0, offset)
            segment = files.active
            known = files.boundaries.get(offset)
            if known is not None:
                position, size, index = known, 0, len(files.all) - 1
            else:
                segment, index, position, size, base_offset = self._find(offset)
                if base_offset >= up_to or size == 0:
                    return LogSlice(None, 0, 0, offset)
            segment_end = files.end_of(index, log.end_offset)
            if up_to < segment_end:
                end_offset = up_to
                bound = files.boundaries.get(up_to) if segment is files.active else None
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
            elif segment is files.active:
                files.note_boundary(end_offset, limit)
            if limit <= position:
                return LogSlice(None, 0, 0, offset)
            piece = LogSlice(segment.log, position, limit - position, end_offset)
            segment.log.hold()  # only now: the slice opens the file, which can fail
            return piece

    def _find(self, offset: int) -> tuple[Segment, int, int, int, int]:
        """Return (segment, its index, position, size, base offset) of the batch that holds the offset, or of the next one.

        Size 0 means that there is none."""
        index = len(self._files.all) - 1 if offset >= self._files.active.base_offset else self._files.index_at(offset)
        while True:
            segment = self._files.all[index]
            position, size, base_offset = segment.position_of(offset)
            if size or index + 1 == len(self._files.all):
                return segment, index, position, size, base_offset
            index += 1  # Compaction removed every batch at or after the offset from this segment.

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that touch offsets in [start, end), in the order of their markers."""
        found: list[AbortedTransaction] = []
        with self._log.lock:
            for segment in self._files.all[self._files.index_at(start) :]:
                if self._files.transactions_of(segment).collect(start, end, found):
                    break
        return found

    def list_offset(self, timestamp_ms: int, up_to: int) -> ListedOffset:
        """Return the first offset below `up_to` whose record has at least this timestamp.

        Special timestamps: -1 the end (`up_to` itself), -2 and -4 the start, -3 the record below `up_to` with the greatest timestamp,
        -5 the end of tiered storage (which this broker does not have). Raises InvalidRequest for other negative values, CorruptMessage and
        OSError. The search by timestamp does not hold the lock while it reads and decompresses records.
        """
        with self._log.lock:
            if timestamp_ms == LATEST:
                return ListedOffset(up_to, -1, self._log.epochs.latest)
            if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
                return ListedOffset(self._log.log_start_offset, -1, self._log.epochs.at(self._log.log_start_offset))
        if timestamp_ms == LATEST_TIERED:
            return NOTHING_LISTED
        if timestamp_ms == MAX_TIMESTAMP:
            found = self._greatest_timestamp(up_to)
        elif timestamp_ms >= 0:
            found = self._first_since(timestamp_ms)
        else:
            raise InvalidRequest(f"timestamp {timestamp_ms} is invalid; use -5 to -1, or 0 and greater")
        return found if found.offset < up_to else NOTHING_LISTED

    def _first_since(self, timestamp_ms: int) -> ListedOffset:
        begin = self._log.log_start_offset
        while True:
            with self._log.lock:
                segment = self._segment_since(timestamp_ms, begin)
                if segment is None:
                    return NOTHING_LISTED
                begin = self._end_of(segment)
                held = _held(segment, segment.times.lookup(timestamp_ms).offset)
            found = self._first_record(held, timestamp_ms)
            if found.offset >= 0:
                return found

    def _segment_since(self, timestamp_ms: int, begin: int) -> Segment | None:
        """Return the first segment that ends after `begin` and has a record with at least this timestamp."""
        for segment in self._files.all[self._files.index_at(begin) :]:
            segment.load_times()
            if segment.greatest.timestamp >= timestamp_ms and self._end_of(segment) > begin:
                return segment
        return None

    def _end_of(self, segment: Segment) -> int:
        return self._files.end_of(self._files.all.index(segment), self._log.end_offset)

    def _greatest_timestamp(self, up_to: int) -> ListedOffset:
        """Return the first record with the greatest timestamp in [log start, up_to)."""
        begin, best, searched = self._log.log_start_offset, NOTHING_LISTED, set[int]()
        while True:
            with ExitStack() as held:
                with self._log.lock:
                    files = [
                        segment
                        for segment in self._files.all[self._files.index_at(begin) :]
                        if segment.base_offset < up_to and segment.base_offset not in searched
                    ]
                    for segment in files:
                        segment.load_times()
                    latest = max(files, key=lambda each: each.greatest.timestamp, default=None)
                    if latest is None or latest.greatest.timestamp <= best.timestamp_ms:
                        return best
                    searched.add(latest.base_offset)
                    timestamp, offset = latest.greatest
                    whole = _held(latest, max(begin, latest.base_offset))
                    held.callback(whole.file.release)
                    likely = _held(latest, offset) if begin <= offset < up_to else None
                found = self._first_record(likely, timestamp) if likely else NOTHING_LISTED
                if not 0 <= found.offset < up_to:
                    # The log start or the bound cuts the segment, or compaction has emptied the batch.
                    found = _greatest_record(whole, begin, up_to)
            best = max(best, found, key=lambda each: each.timestamp_ms)

    def _first_record(self, held: HeldRange, timestamp_ms: int) -> ListedOffset:
        """Return the first record of the range with at least this timestamp and offset >= log start. Release the range."""
        file, position, end = held
        try:
            for at, header in walk_headers(file, position, end):
                if header.max_timestamp < timestamp_ms or header.next_offset <= self._log.log_start_offset:
                    continue
                batch = read_batch(file, at, header.size)
                try:
                    for record in batch.records():
                        # An append may check only the header, so a record can have a timestamp beyond 64 bits.
                        if timestamp_ms <= record.timestamp <= LONG_MAX and record.offset >= self._log.log_start_offset:
                            return ListedOffset(record.offset, record.timestamp, header.leader_epoch)
                except BrokerError:  # Damaged records of one producer must not fail the whole search.
                    first = max(header.base_offset, self._log.log_start_offset)
                    return ListedOffset(first, header.max_timestamp, header.leader_epoch)
            return NOTHING_LISTED
        finally:
            file.release()

    def replay(self, start: int, end: int) -> Iterator[RecordBatch]:
        """Yield the batches that hold offsets in [start, end), with large reads. The lock is free between the reads.

        Raises OffsetOutOfRange, CorruptMessage and OSError."""
        offset = start
        while offset < end:
            with self.read(offset, REPLAY_BYTES, end) as piece:
                data = piece.read()
            if not data:
                return
            for batch in iter_batches(data):
                offset = batch.next_offset
                yield batch
