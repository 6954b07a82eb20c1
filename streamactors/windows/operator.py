"""What the operators of one task have in common: a list of rows in, a list out, and their own stream time.

Owner: WindowTask, one thread at a time. An operator reads no clock: time comes with the rows (the largest timestamp
accepted, never going back, shared by all keys of the task) or from `idle` and `end`, which the task is told about.
If an operator raises, the rows it had put into `out` before stand."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from streamactors.windows.changelog import Change, StoreReader, TaskIdentity
from streamactors.windows.codec import CodecError, KeyIdentity, Serdes
from streamactors.windows.errors import AggregationFailed, BufferFull, InvalidRecord, OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.record import LateRecord, Record

log: Final = logging.getLogger(__name__)

NO_TIME: Final = -1
"""Stream time before the first row."""

END_OF_TIME: Final = 1 << 66
"""Stream time after the end of the input: beyond every 64-bit end plus any wait, so everything is closed."""

FATAL: Final = (BufferFull, OperatorFailed, InvalidRecord)
"""Errors that already say everything; nothing wraps them again."""

Ident = str | bytes


class Surroundings:
    """What a task gives its operators.

    `late`: where refused rows go, if anybody wants them. `on_failure`: asked when user code raised; True means the row
    is taken care of (a dead letter) and is to be skipped. `track_changes`: somebody keeps a changelog."""

    def __init__(
        self,
        serdes: Serdes,
        metrics: TaskMetrics,
        on_failure: Callable[[OperatorFailed], bool] | None = None,
        track_changes: bool = False,
    ) -> None:
        self.serdes = serdes
        self.identity = KeyIdentity(serdes)
        self.metrics = metrics
        self.late: list[LateRecord] | None = None
        self.on_failure = on_failure
        self.track_changes = track_changes

    def settle(self, failure: OperatorFailed) -> None:
        """Return if the row that failed is to be skipped, else raise `failure`."""
        if self.on_failure is None or not self.on_failure(failure):
            raise failure


class Operator(ABC):
    """A step of a task. `node` names it in errors and metrics."""

    store: str | None = None

    def __init__(self, node: str, around: Surroundings) -> None:
        self.node = node
        self.around = around

    @abstractmethod
    def process(self, rows: Sequence[Any], out: list[Any]) -> None:
        """Take `rows` in order, append what follows from them to `out`."""

    def new_input(self) -> None:  # noqa: B027 - most operators need none
        """The input is not idle any more."""

    def idle(self, beyond_ms: int, out: list[Any]) -> None:  # noqa: B027 - most operators need none
        """The input has been silent for `beyond_ms` longer than the idle timeout."""

    def due_at(self) -> int | None:
        """The beyond_ms of `idle` at which something is given out, None if nothing is held."""
        return None

    def end(self, out: list[Any]) -> None:  # noqa: B027 - most operators need none
        """The input has ended: let go of everything."""

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """What of the state changed since the last call, as changelog entries."""
        return ()

    def restore(self, reader: StoreReader) -> None:  # noqa: B027 - most operators need none
        """Rebuild the state from the changelog entries of this operator's store."""

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        """The table's (value, timestamp) for a key and window as downstream has seen it, or None."""
        raise NotImplementedError(f"{self.node} is no table")


class TimedOperator(Operator):
    """An operator with a stream time of its own."""

    def __init__(self, node: str, around: Surroundings) -> None:
        super().__init__(node, around)
        self.stream_time = NO_TIME
        self._time_when_silent: int | None = None
        self._time_before_end: int | None = None

    def new_input(self) -> None:
        self._time_when_silent = None

    def idle(self, beyond_ms: int, out: list[Any]) -> None:
        if self.stream_time == NO_TIME:
            return  # nothing came yet: there is no time to go on from
        if self._time_when_silent is None:
            self._time_when_silent = self.stream_time
        self._advance(min(self._time_when_silent + beyond_ms, END_OF_TIME), out)

    def end(self, out: list[Any]) -> None:
        if self._time_before_end is None:
            self._time_before_end = max(self.stream_time, self._flushed_until())
            self._advance(END_OF_TIME, out)

    def _flushed_until(self) -> int:
        """The stream time that closes what the end of the input makes final; asked before it is let go."""
        return NO_TIME

    @property
    def lasting_time(self) -> int:
        """The stream time that a restart goes on from.

        The end of an input is not the end of its topic: later rows must find time where the rows left it, only that
        the windows flushed as final stay closed."""
        return self.stream_time if self._time_before_end is None else self._time_before_end

    def _advance(self, stream_time: int, out: list[Any]) -> None:
        if stream_time > self.stream_time:
            self.stream_time = stream_time
            self._release(out)

    def due_at(self) -> int | None:
        closes_at = self._next_release()
        if closes_at is None or self.stream_time == NO_TIME:
            return None
        since = self.stream_time if self._time_when_silent is None else self._time_when_silent
        return max(0, closes_at - since)

    def _next_release(self) -> int | None:
        """The stream time at which something is given out next."""
        return None

    @abstractmethod
    def _release(self, out: list[Any]) -> None:
        """Append everything that is due at `stream_time`."""


class AggregateOperator(TimedOperator):
    """An operator that takes Records: the checks of a row, the counts of what was dropped, failures of user code."""

    def _reject(self, record: object) -> None:
        """A row whose timestamp is negative or whose key is None: skipped, counted, time does not move."""
        assert isinstance(record, Record)
        if record.timestamp < 0:
            self.around.metrics.dropped_negative += 1
        else:
            self.around.metrics.dropped_null += 1

    def _late(self, record: Record, start: int, end: int, limit: int) -> None:
        """A row refused by one closed window."""
        metrics = self.around.metrics
        metrics.dropped_late += 1
        if self.around.late is not None:
            self.around.late.append(LateRecord(record, start, end, self.stream_time, limit))
        count = metrics.dropped_late
        if count & (count - 1) == 0:  # at 1, 2, 4, 8 …: a flood of late rows does not become a flood of lines
            log.warning(
                "%s: %d late rows dropped so far; the last: key %r at %d ms for window %d..%d, closed since %s",
                self.node, count, record.key, record.timestamp, start, end,
                f"{limit} ms" if self.stream_time < END_OF_TIME else "the end of the input",
            )  # fmt: skip

    def _failed(self, error: Exception, record: object, start: int | None = None, end: int | None = None) -> None:
        """User code or a row itself failed: raise, unless the task's handler takes the row."""
        if not isinstance(record, Record):
            raise InvalidRecord(
                f"{self.node} was given {record!r}: windowed operators take Record(key, value, timestamp); "
                "map your elements to Record first"
            ) from error
        if isinstance(error, CodecError):
            raise InvalidRecord(f"{self.node}: key {record.key!r}: {error}") from error
        self.around.settle(AggregationFailed(self.node, record, record.key, start, end, error))
