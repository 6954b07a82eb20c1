"""The appends of one coordinator to its partition of an internal topic.

Owner: one coordinator, on the data plane's thread. The records of one turn are one batch, so sixty commits that arrive together
cost one append. `then` is called in the order of the log: when the records are below the high watermark (and flushed if the
topic demands it), or with the error of the append. Batches fail independently."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from streamactors.broker.coordinator.coordinator_messages import Flush, WriteCallbackFailed
from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import BatchBuilder
from streamactors.broker.records.record import NewRecord

if TYPE_CHECKING:
    from streamactors.broker.replication.partition_table import AppendOutcome

Then = Callable[[ErrorCode, int], object]  # error, offset of the first of these records
Refuse = Callable[[ErrorCode], object]

KeyValue = tuple[bytes, bytes | None]

_RECORD_OVERHEAD: Final = 32  # the most bytes that a record adds to its key and value
_BATCH_OVERHEAD: Final = 61  # the header of a batch


Append = Callable[[bytearray, Callable[["AppendOutcome"], object]], None]
"""Appends one batch to the partition and reports the outcome once."""


class _Buffered(NamedTuple):
    at: int  # index of its first record in the batch
    then: Then
    refuse: Refuse | None  # answers the request that waits for these records if `then` raises


class _InFlight:
    """A batch whose append has not been reported in order yet."""

    __slots__ = ("outcome", "waiting")

    def __init__(self, waiting: Sequence[_Buffered]) -> None:
        self.waiting = waiting
        self.outcome: AppendOutcome | None = None


class CoordinatorLog:
    """Appends for one coordinator."""

    def __init__(
        self, append: Append, wall_ms: Callable[[], int], max_batch_bytes: int, tell: Callable[[object], object]
    ) -> None:
        self._append = append
        self._wall_ms = wall_ms
        self._max_batch_bytes = max_batch_bytes
        self._tell = tell
        self._closed = False
        self._builder = BatchBuilder()
        self._waiting: list[_Buffered] = []
        self._in_flight: deque[_InFlight] = deque()

    def write(self, records: Sequence[KeyValue], then: Then, refuse: Refuse | None = None) -> None:
        """Append (key, value) records in one batch with others of this turn. A value of None is a tombstone."""
        if self._closed:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        size = sum(map(_size, records))
        if self._builder.count and self._builder.size + size > self._max_batch_bytes:
            self.flush()
        if not self._builder.count:
            self._tell(Flush())
        now_ms = self._wall_ms()
        self._waiting.append(_Buffered(self._builder.count, then, refuse))
        for key, value in records:
            self._builder.append(key, value, now_ms)

    def write_all(
        self,
        records: Sequence[KeyValue],
        written: Callable[[range], object],
        then: Callable[[ErrorCode], object],
        refuse: Refuse | None = None,
    ) -> None:
        """Append any number of records, in as many batches as they need.

        `written` is called with the range of records of each batch in the log, and at the end `then` with the first error.
        Batches fail independently."""
        parts = self._parts(records)
        if not parts:
            then(ErrorCode.NONE)
            return
        failed = ErrorCode.NONE
        left = len(parts)

        def appended(part: range, error: ErrorCode, _offset: int) -> None:
            nonlocal failed, left
            failed = failed or error
            left -= 1
            if error is ErrorCode.NONE:
                written(part)
            if not left:
                then(failed)

        for part in parts:
            self.write(records[part.start : part.stop], partial(appended, part), refuse)

    def _parts(self, records: Sequence[KeyValue]) -> list[range]:
        """Cut records into ranges that fit into one batch each."""
        parts, start, size = [], 0, 0
        for at, record in enumerate(records):
            more = _size(record)
            if at > start and size + more > self._max_batch_bytes - _BATCH_OVERHEAD:
                parts.append(range(start, at))
                start, size = at, 0
            size += more
        return [*parts, range(start, len(records))] if records else []

    def write_batch(self, batch: bytearray, then: Then, refuse: Refuse | None = None) -> None:
        """Append a prepared batch, after everything written before it."""
        if self._closed:
            then(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            return
        self.flush()
        self._send(batch, [_Buffered(0, then, refuse)])

    def close(self) -> None:
        """Refuse every later write. Earlier writes are still reported."""
        self._closed = True

    def flush(self) -> None:
        """Append the buffered records."""
        if self._builder.count:
            builder, self._builder = self._builder, BatchBuilder()
            waiting, self._waiting = self._waiting, []
            self._send(builder.build(), waiting)

    def _send(self, batch: bytearray, waiting: Sequence[_Buffered]) -> None:
        sent = _InFlight(waiting)
        self._in_flight.append(sent)
        self._append(batch, lambda outcome: self._appended(sent, outcome))

    def _appended(self, sent: _InFlight, outcome: AppendOutcome) -> None:
        sent.outcome = outcome
        # An earlier batch may be unacknowledged: the state must follow the order of the log.
        while self._in_flight and (done := self._in_flight[0].outcome) is not None:
            waiting = self._in_flight.popleft().waiting
            for at, then, refuse in waiting:
                try:
                    then(done.error, done.base_offset + at)
                except Exception as error:  # noqa: BLE001 - the other writers must be called
                    self._callback_failed(error, refuse)

    def _callback_failed(self, error: Exception, refuse: Refuse | None) -> None:
        """Refuse the waiting request, and restart the coordinator."""
        try:
            if refuse is not None:
                refuse(ErrorCode.UNKNOWN_SERVER_ERROR)
        finally:
            self._tell(WriteCallbackFailed(self, error))


def _size(record: KeyValue) -> int:
    key, value = record
    return len(key) + len(value or b"") + _RECORD_OVERHEAD


def transactional_batch(records: Sequence[NewRecord], producer_id: int, producer_epoch: int) -> bytearray:
    """Return a batch of a coordinator's records that belongs to a producer's transaction."""
    builder = BatchBuilder()
    for key, value, timestamp, _ in records:
        builder.append(key, value, timestamp)
    return builder.build(producer_id=producer_id, producer_epoch=producer_epoch, transactional=True)


_UNAVAILABLE: Final = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
_MOVED: Final = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.FENCED_LEADER_EPOCH}
)
_TOO_LARGE: Final = frozenset(
    {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE, ErrorCode.INVALID_FETCH_SIZE}
)


def client_error(error: ErrorCode, too_large: ErrorCode = ErrorCode.UNKNOWN_SERVER_ERROR) -> ErrorCode:
    """Return the error for the client if the coordinator's append failed. Clients do not know the log's own errors."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    return too_large if error in _TOO_LARGE else error
