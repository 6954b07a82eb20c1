"""A stream joined with a stream: rows of equal key whose times lie in one window, each pair once.

Owner: WindowTask; one operator for each side. A row first meets the stored rows of the other side, by time and then by
arrival; then it is stored. A row without a match waits, in a left or outer join, until stream time has closed its window,
and then gives fn(value, None). A row is late once stream time has passed its window and the grace; it is dropped and counted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.codec import CodecError
from streamactors.windows.definitions.join_windows import JoinWindows
from streamactors.windows.errors import InvalidRecord, OperatorFailed
from streamactors.windows.joins.stream_stream_state import (
    LEFT,
    NEVER,
    RIGHT,
    JoinClock,
    SideRows,
    UnmatchedValues,
    WaitingRows,
)
from streamactors.windows.operators.operator import Ident, Operator, TaskEnvironment
from streamactors.windows.operators.windowed.late_rows import refuse_row
from streamactors.windows.record import Record
from streamactors.windows.values import IMMUTABLE, snapshot


@dataclass(frozen=True, slots=True)
class JoinSpec:
    """`fn(left, right)`. `left_nulls`, `right_nulls`: rows of this side without a match give a result, too."""

    windows: JoinWindows
    fn: Callable[[Any, Any], Any]
    left_nulls: bool
    right_nulls: bool

    @property
    def grace_ms(self) -> int:
        return self.windows.grace_ms or 0


class JoinSide(Operator):
    """One side of a join: `own` rows are stored, `other` rows are met."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        spec: JoinSpec,
        *,
        is_left: bool,
        clock: JoinClock,
        own: SideRows,
        other: SideRows,
        waiting: WaitingRows | None,
    ) -> None:
        super().__init__(node, env)
        windows = spec.windows
        self._is_left = is_left
        self._text = env.identity.text
        self._fn = spec.fn
        self._before, self._after = windows.before_ms, windows.after_ms  # of the other side's row, beside this one's
        if not is_left:
            self._before, self._after = self._after, self._before
        self._reach_left, self._reach_right = windows.after_ms + spec.grace_ms, windows.before_ms + spec.grace_ms
        self._shortest = min(self._reach_left, self._reach_right)
        self._grace = spec.grace_ms
        self._nulls = spec.left_nulls if is_left else spec.right_nulls
        self._clock = clock
        self._own = own
        self._other = other
        self._waiting = waiting
        self._side, self._other_side = (LEFT, RIGHT) if is_left else (RIGHT, LEFT)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        for row in rows:
            try:
                self._take(row, out)
            except CodecError as error:
                raise InvalidRecord(f"{self.node}: key {row.key!r}: {error}") from error
            except OperatorFailed:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.env.settle(OperatorFailed(self.node, "the joiner", row, row.key, None, None, error))

    @abstractmethod
    def _take(self, row: Record, out: list[Any]) -> None:
        """Join and store one row."""

    def _lone(self, row: Record) -> Record:
        """Return the result of a row of this side without a match."""
        value = snapshot(row.value)
        return Record(
            row.key, self._fn(value, None) if self._is_left else self._fn(None, value), row.timestamp, row.context
        )

    def _ident(self, key: Any) -> Ident:
        if type(key) is str and self._text is str:
            return key
        return self.env.identity.of(key)

    def _pairs(self, row: Record, ident: Ident, matches: Sequence[Any], found: list[Any]) -> None:
        """Append the results of a row with the rows that it meets; those have a match now."""
        fn, is_left = self._fn, self._is_left
        key, value, timestamp, context = row.key, row.value, row.timestamp, row.context
        for each in matches:
            time, own, other = each.time, value, each.value
            if type(own) not in IMMUTABLE:
                own = snapshot(own)
            if type(other) not in IMMUTABLE:
                other = snapshot(other)
            result = fn(own, other) if is_left else fn(other, own)
            found.append(Record(key, result, time if time > timestamp else timestamp, context))
        waiting = self._waiting
        if waiting is not None:
            for each in matches:
                waiting.matched(ident, each.time, self._other_side)

    def _release(
        self, entry: UnmatchedValues, time: int, is_left: bool, trigger: Record | None, found: list[Any]
    ) -> None:
        """Append the results of rows that found no match. Their failures are handled apart from the row that moved the time."""
        fn = self._fn
        context = None if trigger is None else trigger.context
        for value in entry.values:
            try:
                result = fn(value, None) if is_left else fn(None, value)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                waited = Record(entry.key, value, time, None)
                self.env.settle(OperatorFailed(self.node, "the joiner", waited, entry.key, None, None, error))
            else:
                found.append(Record(snapshot(entry.key), result, time, context))

    # ── time without rows; the left side acts for both ────────────────────────────────────────────────────────────

    def new_input(self) -> None:
        self._clock.silent.over()

    def idle(self, beyond_ms: int, out: list[Any]) -> None:
        if self._is_left and self._waiting is not None:
            clock = self._clock
            clock.stream_time = clock.silent.moved(clock.stream_time, beyond_ms)
            self._release_closed(self._waiting, None, out)

    def due_at(self) -> int | None:
        if not self._is_left or self._waiting is None:
            return None
        first = NEVER
        for _, time, is_left, _ in self._waiting.in_order():
            if time + self._shortest >= first:
                break
            first = min(first, time + self._reach_of(is_left))
        return None if first == NEVER else self._clock.silent.due_in(self._clock.stream_time, first + 1)

    def end(self, out: list[Any]) -> None:
        """No further row comes: the rows that wait give their results without a match."""
        if self._is_left and self._waiting is not None:
            for where, time, is_left, entry in list(self._waiting.in_order()):
                self._release(entry, time, is_left, None, out)
                self._waiting.remove(where)
                self._given_alone(is_left, entry.key, time)
            self._waiting.look_again()

    def _release_closed(self, waiting: WaitingRows, row: Record | None, found: list[Any]) -> None:
        """Append the results of the rows whose windows have closed; `row` moved the time, None: silence did."""
        shortest, stream_time = self._shortest, self._clock.stream_time
        if waiting.first_time + shortest >= stream_time:
            return
        for where, time, is_left, entry in list(waiting.in_order(stream_time - shortest)):
            if time + self._reach_of(is_left) < stream_time:
                self._release(entry, time, is_left, row, found)
                waiting.remove(where)
                self._given_alone(is_left, entry.key, time)
        waiting.look_again()

    def _reach_of(self, is_left: bool) -> int:
        return self._reach_left if is_left else self._reach_right

    def _given_alone(self, is_left: bool, key: Any, time: int) -> None:
        """Rows of a side, key and time have emitted their results without a match."""


class StrictSide(JoinSide):
    """No late match, and no result without a match for a row that has or gets one. Dropped rows do not move the time."""

    def _take(self, row: Record, out: list[Any]) -> None:
        key, timestamp = row.key, row.timestamp
        if row.value is None or (key is None and not self._nulls):
            self.env.metrics.dropped_null += 1
            return
        if key is None:
            out.append(self._lone(row))
            return
        ident = self._ident(key)
        clock = self._clock
        stream_time = clock.stream_time
        own_reach = self._after if self._after > 0 else 0
        closes = timestamp + own_reach + self._grace
        if closes < stream_time:
            refuse_row(
                self.node, self.env, row, timestamp - self._before, timestamp + self._after, stream_time, self._grace
            )
            return
        if timestamp > stream_time:
            clock.stream_time = stream_time = timestamp
        if self._waiting is not None:
            self._release_closed(self._waiting, row, out)  # results of other rows: they stay if this row fails
        found: list[Any] = []
        matches = self._other.between(ident, timestamp - self._before, timestamp + self._after)
        if matches:
            self._pairs(row, ident, matches, found)
        out.extend(found)
        own = self._own
        if not matches and self._nulls and self._waiting is not None:
            self._waiting.put(ident, key, timestamp, self._side, snapshot(row.value))
        own.put(ident, key, timestamp, snapshot(row.value))
        over = stream_time - own.retention_ms
        if over > own.sweeps_at:
            own.expire(over)
            self._other.expire(over)

    def _given_alone(self, is_left: bool, key: Any, time: int) -> None:
        rows = self._own if is_left == self._is_left else self._other
        rows.forget(self._ident(key), time)


class KafkaSide(JoinSide):
    """Kafka Streams' results row for row: KStreamKStreamJoin and KStreamJoinWindow of 4.4."""

    def _take(self, row: Record, out: list[Any]) -> None:
        key, timestamp, clock, waiting = row.key, row.timestamp, self._clock, self._waiting
        if timestamp > clock.stream_time:
            clock.stream_time = timestamp
        if row.value is None or (key is None and not self._nulls):
            self.env.metrics.dropped_null += 1
            return
        if key is None:
            out.append(self._lone(row))
            return
        ident = self._ident(key)
        if waiting is not None and timestamp == clock.stream_time:
            self._release_due(row, out)  # results of other rows: they stay if this row fails
        found: list[Any] = []
        last = max(0, timestamp + self._after)
        matches = self._other.shown(ident, max(0, timestamp - self._before), last)
        if matches:
            self._pairs(row, ident, matches, found)
        elif self._nulls:
            if waiting is None or last < clock.stream_time:
                found.append(self._lone(row))
            else:
                clock.min_time = min(clock.min_time, timestamp)
                waiting.put(ident, key, timestamp, self._side, snapshot(row.value))
        out.extend(found)
        own = self._own
        if own.refuses(timestamp):
            self.env.metrics.dropped_late += 1
        else:
            own.put(ident, key, timestamp, snapshot(row.value))
            own.expire(own.newest - own.retention_ms + 1)

    def _release_due(self, row: Record, found: list[Any]) -> None:
        clock, waiting = self._clock, self._waiting
        assert waiting is not None
        if clock.min_time == NEVER or clock.min_time + self._after + self._grace >= clock.stream_time:
            return
        clock.min_time = NEVER
        left_open = right_open = False
        for where, time, is_left, entry in waiting.in_order():
            clock.min_time = time
            if left_open and right_open:
                break
            if time + self._reach_of(is_left) >= clock.stream_time:
                left_open, right_open = left_open or is_left, right_open or not is_left
                continue
            self._release(entry, time, is_left, row, found)
            waiting.remove(where)
