"""The row loop of every aggregation: the checks that each row passes, and what happens when user code raises.

Owner: WindowTask. `_accepted` skips and counts rows without key, with a negative timestamp or (where values are needed)
without value, and moves stream time. Subclasses write `_take`, which iterates over the accepted rows: an iterator costs
less per row than a method call, because `_take` keeps its state in local variables."""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeAlias, TypeVar

from streamactors.clock import told_as_seconds
from streamactors.codec import CodecError
from streamactors.windows.definitions.aggregator import Aggregator
from streamactors.windows.definitions.windows import SessionWindows, SlidingWindows, TimeWindows, UnlimitedWindows
from streamactors.windows.errors import AggregationFailed, BufferFull, InvalidRecord, OperatorFailed
from streamactors.windows.operators.operator import NO_TIME, Ident, TaskEnvironment, TimedOperator
from streamactors.windows.record import Record, as_read

_log = logging.getLogger("streamactors.windows")
_FATAL: Final = (BufferFull, OperatorFailed, InvalidRecord)
"""Errors that name the node and the row already; the loop does not wrap them again."""

Accepted: TypeAlias = tuple[Ident, Record, int]
"""A row that passed the checks: the ident of its key, the row, its timestamp."""

W = TypeVar("W", bound=TimeWindows | SessionWindows | SlidingWindows | UnlimitedWindows)


@dataclass(frozen=True, slots=True)
class AggregateSpec(Generic[W]):
    """One windowed aggregation of a blueprint with every choice made.

    `kafka`: Kafka's semantics to the letter. `finals`: the operator itself or a later step on the same table emits
    final results. `old_from_init`: the first update of a window carries the initial value as its old one, as in Kafka
    Streams, where some later updates carry none. False: each update carries the value that was forwarded before it, or None.
    `fill_empty_ms`: for so long after its last window a key also has final results of windows without rows; None: it has none."""

    node: str
    store: str
    windows: W
    aggregator: Aggregator
    retention_ms: int
    kafka: bool
    finals: bool
    old_from_init: bool = True
    fill_empty_ms: int | None = None


class AggregateOperator(TimedOperator):
    """An operator that takes Records."""

    needs_value: ClassVar[bool] = False
    """Rows whose value is None are skipped and counted."""

    _seconds_told = False
    _row: Record  # the row that `_take` works on

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        if rows:
            self._look_at_time(rows[0])
        accepted = self._accepted(rows) if len(rows) != 1 else self._accepted_alone(rows)
        done = False
        while not done:
            try:
                self._take(accepted, out)
                done = True
            except _FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self._failed(error, self._row)  # `accepted` continues with the next row
        self._after_rows()

    def _look_at_time(self, row: Record) -> None:
        """Warn once of event time in seconds; the first row of each chunk is looked at."""
        told = None if self._seconds_told else told_as_seconds(row.timestamp)
        if told is not None:
            self._seconds_told = True
            _log.warning("windows: %s", told)

    def _accepted_alone(self, rows: Sequence[Record]) -> Iterator[Accepted]:
        """As `_accepted`, for one row. A row that passes the checks needs no generator; topologies of several topics often bring such rows."""
        [record] = rows
        if type(record) is Record and type(record.key) is self.env.identity.text:
            ident: Any = record.key
            timestamp = record.timestamp
            if timestamp >= 0 and not (self.needs_value and record.value is None):
                if timestamp > self.stream_time:
                    self.stream_time = timestamp
                self._row = record
                return iter(((ident, record, timestamp),))
        return self._accepted(rows)

    def _accepted(self, rows: Sequence[Record]) -> Iterator[Accepted]:
        """Yield each row that passes the checks, after stream time has moved to it."""
        identity = self.env.identity
        text, identify = identity.text, identity.of
        needs_value = self.needs_value
        stream_time = self.stream_time
        for record in rows:
            try:
                timestamp = record.timestamp
                ident = record.key
                if needs_value and record.value is None:
                    self._reject(record)
                    continue
                if type(ident) is not text:
                    if ident is None:
                        self._reject(record)
                        continue
                    ident = identify(ident)
            except Exception as error:  # noqa: BLE001 - no Record, or a key that has no bytes
                self._failed(error, record)
                continue
            if timestamp > stream_time:
                self.stream_time = stream_time = timestamp
            elif timestamp < 0:
                self._reject(record)
                continue
            self._row = record
            yield ident, record, timestamp

    @abstractmethod
    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        """Apply the accepted rows. If user code raises, `_take` is called again for the rows that remain."""

    def _after_rows(self) -> None:
        """The rows of one call are done."""

    def _reject(self, record: Record) -> None:
        """Skip and count a row; it does not move stream time."""
        if record.timestamp < 0:
            self.env.metrics.dropped_negative += 1
        else:
            self.env.metrics.dropped_null += 1

    def _failed(self, error: Exception, record: object, start: int | None = None, end: int | None = None) -> None:
        """User code or the row itself failed: raise, unless the failure handler skips the row."""
        if not isinstance(record, Record):
            raise InvalidRecord(
                f"{self.node} was given {record!r}: windowed operators take Record(key, value, timestamp); "
                "map your elements to Record first"
            ) from error
        if isinstance(error, CodecError):
            raise InvalidRecord(f"{self.node}: key {record.key!r}: {error}") from error
        self.env.settle(AggregationFailed(self.node, as_read(record), record.key, start, end, error))


class WindowedOperator(AggregateOperator):
    """An aggregation over windows: the settings and the state that all kinds of windows share."""

    def __init__(self, spec: AggregateSpec[Any], env: TaskEnvironment) -> None:
        super().__init__(spec.node, spec.store, f"{spec.aggregator.kind} over {spec.windows.shape}", env)
        self._aggregator = spec.aggregator
        self._retention = spec.retention_ms
        env.expires(self._log, spec.retention_ms)
        self._finals = spec.finals
        self._kafka = spec.kafka
        self._newest = NO_TIME  # the largest start (session: end) ever written

    def _state(self) -> dict[str, Any]:
        return {"stream_time": self.lasting_time, "newest": self._newest}

    def _restore_state(self, state: dict[str, Any]) -> None:
        self.stream_time, self._newest = state["stream_time"], state["newest"]
