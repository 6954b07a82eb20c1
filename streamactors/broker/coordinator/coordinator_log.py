"""The partition of an internal topic that a coordinator keeps its state in: what it appends, and in which order it hears.

Owner: one coordinator, on the data plane's thread. Records of one turn go out as one batch, so sixty commits that came in
together cost one append. `then` is called in the order of the log, when the records are below the high watermark (and flushed
where the topic demands it), or with the error that kept them out; a batch that fails takes nothing of another with it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, Protocol

from streamactors.broker.errors import ErrorCode
from streamactors.broker.records.builder import BatchBuilder
from streamactors.broker.records.record import NewRecord

Then = Callable[[ErrorCode, int], object]  # error, offset of the first of these records

_RECORD_OVERHEAD: Final = 32  # an upper bound of what a record adds to its key and value


class Appended(Protocol):
    """What became of an append."""

    @property
    def error(self) -> ErrorCode: ...
    @property
    def base_offset(self) -> int: ...


class Append(Protocol):
    """Appends one batch to the partition and reports once what became of it."""

    def __call__(self, batch: bytearray, then: Callable[[Appended], object], /) -> None: ...


class _Buffered(NamedTuple):
    at: int  # of its first record in the batch
    then: Then


class _InFlight:
    """A batch that was handed to the log."""

    __slots__ = ("outcome", "waiting")

    def __init__(self, waiting: Sequence[_Buffered]) -> None:
        self.waiting = waiting
        self.outcome: Appended | None = None


class CoordinatorLog:
    """Appends for one coordinator."""

    def __init__(
        self, append: Append, wall_ms: Callable[[], int], max_batch_bytes: int, ask_to_flush: Callable[[], object]
    ) -> None:
        self._append = append
        self._wall_ms = wall_ms
        self._max_batch_bytes = max_batch_bytes
        self._ask_to_flush = ask_to_flush
        self._builder = BatchBuilder()
        self._waiting: list[_Buffered] = []
        self._in_flight: deque[_InFlight] = deque()

    def write(self, records: Sequence[tuple[bytes, bytes | None]], then: Then) -> None:
        """Have (key, value) records appended together, with others of this turn. Values of None are tombstones."""
        size = sum(len(key) + len(value or b"") + _RECORD_OVERHEAD for key, value in records)
        if self._builder.count and self._builder.size + size > self._max_batch_bytes:
            self.flush()
        if not self._builder.count:
            self._ask_to_flush()
        now_ms = self._wall_ms()
        self._waiting.append(_Buffered(self._builder.count, then))
        for key, value in records:
            self._builder.append(key, value, now_ms)

    def write_batch(self, batch: bytearray, then: Then) -> None:
        """Have a batch of its own appended, after everything written before it."""
        self.flush()
        self._send(batch, [_Buffered(0, then)])

    def flush(self) -> None:
        """Append what was written so far."""
        if self._builder.count:
            builder, self._builder = self._builder, BatchBuilder()
            waiting, self._waiting = self._waiting, []
            self._send(builder.build(), waiting)

    def _send(self, batch: bytearray, waiting: Sequence[_Buffered]) -> None:
        sent = _InFlight(waiting)
        self._in_flight.append(sent)
        self._append(batch, lambda outcome: self._appended(sent, outcome))

    def _appended(self, sent: _InFlight, outcome: Appended) -> None:
        sent.outcome = outcome
        # An earlier batch may still be waited for: state must be folded in the order of the log.
        while self._in_flight and (done := self._in_flight[0].outcome) is not None:
            waiting = self._in_flight.popleft().waiting
            for at, then in waiting:
                then(done.error, done.base_offset + at)


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
    """Return what a client is told when its coordinator's log refused an append: the log is no business of its own."""
    if error in _UNAVAILABLE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error in _MOVED:
        return ErrorCode.NOT_COORDINATOR
    return too_large if error in _TOO_LARGE else error
