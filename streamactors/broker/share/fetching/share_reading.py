"""Reads records of share partitions and acquires them for a member.

Owner: the data plane. Rules: Apache Kafka's DelayedShareFetch: each share partition that has something to acquire gets an equal part of the
bytes; the first one gets its first batch even if that is larger. Records of aborted transactions are archived if the group reads only committed ones.

Only headers of batches are read, as many as hold the records that are wanted. The records go from the page cache to the socket. Pages that are not
there are read by a helper thread; until then no other fetch reads the share partition."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode, OffsetOutOfRange
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.records.control import read_marker
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.warming import is_cold, read_now
from streamactors.broker.share.fetching.batch_walk import Placed, batches_up_to
from streamactors.broker.share.fetching.led_share_partition import LedSharePartition
from streamactors.broker.share.partition.acquiring import Acquired, Fetched, Span, Want, acquire
from streamactors.log_limit import log_limited

_COPIED_BELOW: Final = 16 << 10  # bytes: a copy is cheaper than a separate sendfile

_log = logging.getLogger("streamactors.broker.share")


@dataclass(frozen=True, slots=True)
class ShareLimitsOfFetch:
    """The limits of one share fetch. Sizes in bytes."""

    min_bytes: int
    max_bytes: int
    want: Want
    read_committed: bool


class Cold(NamedTuple):
    """Batches up to an offset that must be brought into the page cache before they can be acquired. Release the slice."""

    led: LedSharePartition
    piece: LogSlice
    up_to: int


class ShareRead(NamedTuple):
    """The answer for one share partition."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    records: bytes | bytearray | LogSlice = b""
    acquired: Sequence[Acquired] = ()


def bound_of(partition: HostedPartition, read_committed: bool) -> int:
    """Return the exclusive upper bound of the offsets that a group sees."""
    return partition.last_stable_offset if read_committed else partition.high_watermark


def acquirable(partitions: Iterable[LedSharePartition]) -> list[tuple[LedSharePartition, int]]:
    """Return the share partitions that may have something to acquire, with the offset to read from."""
    found = []
    for led in partitions:
        if led.is_active and not led.is_being_read:
            records = led.records
            offset = records.next_fetch_offset()
            if records.may_acquire_at(offset):
                found.append((led, offset))
    return found


class ShareReader:
    """Reads and acquires for one fetch. `found` are the answers so far."""

    def __init__(self, partitions: int, member: str, limits: ShareLimitsOfFetch) -> None:
        self._member = member
        self._limits = limits
        self._left_bytes = limits.max_bytes
        self._left_records = limits.want.max_records
        self._share = max(1, limits.max_bytes // max(1, partitions))
        self.found: dict[LedSharePartition, ShareRead] = {}

    def read(self, partitions: Iterable[LedSharePartition], now_ms: float, *, wait: bool = False) -> list[Cold]:
        """Read each share partition that has something to acquire, until the member has enough. Return those that need the disk.

        With `wait` this thread waits for the disk."""
        cold = []
        for led, offset in acquirable(partitions):
            if self._left_records <= 0:
                break
            read = self._read_one(led, offset, now_ms, wait)
            if isinstance(read, Cold):
                cold.append(read)
                continue
            self.found[led] = read
            self._left_bytes = max(0, self._left_bytes - _size(read.records))
            self._left_records -= sum(each.last - each.first + 1 for each in read.acquired)
        return cold

    def release(self) -> None:
        """Give up what was read. What was acquired is released when the session ends."""
        for each in self.found.values():
            if isinstance(each.records, LogSlice):
                each.records.release()

    def _read_one(self, led: LedSharePartition, offset: int, now_ms: float, wait: bool) -> ShareRead | Cold:
        partition = led.partition
        error = partition.client_error(led.leader_epoch)
        if error:
            return ShareRead(error)
        first = not any(each.acquired for each in self.found.values())
        bound = bound_of(partition, self._limits.read_committed)
        piece = None
        try:
            piece = partition.log.read(offset, min(self._share, self._left_bytes), bound, first)
            read = self._acquire(led, offset, piece, now_ms, wait) if piece.length else ShareRead()
        except OffsetOutOfRange:
            led.records.log_starts_at(partition.log_start_offset)
            return ShareRead()
        except BrokerError as cause:
            read = ShareRead(cause.code, str(cause))
        except OSError as cause:
            partition.read_failed(cause)
            log_limited(
                _log, logging.ERROR, (partition.topic, cause.errno),
                "%s: cannot read at offset %d: %s", partition, offset, cause,
            )  # fmt: skip
            read = ShareRead(ErrorCode.KAFKA_STORAGE_ERROR)
        if piece is not None and not (isinstance(read, Cold) or read.records is piece):
            piece.release()
        return read

    def _acquire(
        self, led: LedSharePartition, offset: int, piece: LogSlice, now_ms: float, wait: bool
    ) -> ShareRead | Cold:
        want = self._limits.want._replace(max_records=self._left_records)
        up_to = led.records.enough(offset, want.max_records)
        placed = batches_up_to(piece, up_to, wait=wait)
        if placed is None:
            return Cold(led, piece, up_to)
        if not placed:
            return ShareRead()
        _narrow(piece, placed)
        if not wait and is_cold(piece):
            return Cold(led, piece, up_to)
        aborted = _aborted(led.partition, placed, offset) if self._limits.read_committed else ()
        spans = [Span(each.base_offset, each.last_offset) for _, each in placed]
        acquired = acquire(led.records, self._member, Fetched(offset, spans, aborted), want, now_ms)
        if not acquired:
            return ShareRead()
        led.locked()
        first, last = acquired[0].first, acquired[-1].last
        wanted = [each for each in placed if each[1].last_offset >= first and each[1].base_offset <= last]
        if not wanted:
            return ShareRead(acquired=acquired)
        _narrow(piece, wanted)
        records = read_now(piece) if piece.length < _COPIED_BELOW else None
        return ShareRead(records=piece if records is None else records, acquired=acquired)


def _narrow(piece: LogSlice, placed: Sequence[Placed]) -> None:
    """Keep the batches of the slice that were placed, and those between them. Their places count from the first one then."""
    begin, (at, last) = placed[0][0], placed[-1]
    piece.narrow(begin, at + last.size - begin, last.next_offset)


def _size(records: bytes | bytearray | LogSlice) -> int:
    return records.length if isinstance(records, LogSlice) else len(records)


def _aborted(partition: HostedPartition, placed: Sequence[Placed], offset: int) -> list[Span]:
    """Return the batches that belong to aborted transactions."""
    waiting = sorted(
        partition.log.reader.aborted_transactions(offset, placed[-1][1].next_offset),
        key=lambda each: each.first_offset,
    )
    producers: set[int] = set()
    found = []
    for _, batch in placed:
        if batch.producer_id < 0:
            continue
        while waiting and waiting[0].first_offset <= batch.last_offset:
            producers.add(waiting.pop(0).producer_id)
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.committed:
                producers.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in producers:
            found.append(Span(batch.base_offset, batch.last_offset))
    return found
