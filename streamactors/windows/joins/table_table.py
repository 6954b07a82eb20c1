"""A table joined with a table: an update of one side meets the entry of the other side.

Owner: WindowTask; one operator for each side, and one downstream of both. The time of a result is the later one of the update
and of the other side's entry, also for deletions. In Kafka mode a deletion is forwarded even if the result never existed;
in strict mode only if it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.operator import Found, Ident, Operator, TaskEnvironment, Update
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.tables.stored import StoredTable
from streamactors.windows.values import IMMUTABLE, snapshot

How = Literal["inner", "left", "outer"]


@dataclass(frozen=True, slots=True)
class TableJoin:
    """`fn(left, right)`; `how`: which results exist."""

    fn: Callable[[Any, Any], Any]
    how: How

    def result(self, left: Any, right: Any) -> Any:
        """Return the result for two values, None if there is none."""
        if left is None and (right is None or self.how != "outer"):
            return None
        if right is None and self.how == "inner":
            return None
        return self.fn(left, right)

    def read(self, left: Found | None, right: Found | None) -> Found | None:
        """Return the result for two entries."""
        value = self.result(None if left is None else left[0], None if right is None else right[0])
        if value is None:
            return None
        return value, max(-1 if each is None or each[1] is None else each[1] for each in (left, right))


class TableJoinSide(Operator):
    """One side. `other`: the table of the other side. `skips_stale`: this side is versioned, and only its newest versions join.
    `diamond`: both tables derive from one table. Then the other side may have changed with the same row, so this side does not know whether
    there was a result before. It forwards deletions in any case, and TableJoinResult drops those of results that do not exist."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        join: TableJoin,
        other: Operator,
        *,
        is_left: bool,
        kafka: bool,
        sends_old: bool,
        skips_stale: bool,
        diamond: bool = False,
    ) -> None:
        super().__init__(node, env)
        self._join = join
        self._other = other
        self._diamond = diamond
        self._is_left = is_left
        self._kafka = kafka
        self._sends_old = sends_old
        self._skips_stale = skips_stale
        self._always = join.how == "inner" or (join.how == "left" and not is_left)  # results need the other side

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        read, is_left, fn, kafka = self._other.read, self._is_left, self._join.result, self._kafka
        needs_other, sends_old = self._always, self._sends_old
        for ident, key, start, end, new, old, timestamp, context, final in rows:
            if final is None and self._skips_stale:
                self.env.metrics.dropped_stale += 1
                continue
            try:
                found = read(ident, start, end)
            except OperatorFailed as failure:
                self.env.settle(failure.met_by(new, key, start, end))
                continue
            if found is None:
                if new is None and old is None:
                    continue
                if needs_other and not self._diamond:
                    continue
                other = None
            else:
                other, time = found
                if time is not None and time > timestamp:
                    timestamp = time
            if not kafka and new is None and old is None:
                continue
            try:
                again = other if type(other) in IMMUTABLE else snapshot(other)
                result = fn(new, other) if is_left else fn(other, new)
                before = None
                if sends_old or (not kafka and result is None):
                    before = fn(old, again) if is_left else fn(again, old)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.env.settle(OperatorFailed(self.node, "the joiner", new, key, start, end, error))
                continue
            if result is not None or before is not None or kafka or self._diamond:
                out.append((ident, key, start, end, result, before, timestamp, context, final))


class TableJoinResult(Operator):
    """Downstream of both sides: the joined table, with a store if it has a name. Without one it is computed when it is read.

    `diamond`: both tables derive from one table, so an update of that table arrives by each side. The store then says what was forwarded:
    an equal result is not forwarded again, and a deletion only if a result exists."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        join: TableJoin,
        left: Operator,
        right: Operator,
        stored: StoredTable | None,
        *,
        diamond: bool = False,
    ) -> None:
        super().__init__(node, env)
        self.stored = stored
        self._diamond = diamond
        self._join = join
        self._left = left
        self._right = right

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        stored = self.stored
        if stored is not None and self._diamond:
            out.extend(self._once(stored, rows))
            return
        if stored is not None:
            for ident, key, start, end, new, _, timestamp, _, _ in rows:
                stored.put(ident, key, start, end, new, timestamp)
        out.extend(rows)

    def _once(self, stored: StoredTable, rows: Sequence[Update]) -> Iterator[Update]:
        """Store the results that differ from those in the store; return their updates."""
        for ident, key, start, end, new, _, timestamp, context, final in rows:
            found = stored.get(ident, start, end)
            old = None if found is None else found[0]
            if (new is None and old is None) or (found is not None and found == (new, timestamp)):
                continue
            stored.put(ident, key, start, end, new, timestamp)
            yield ident, key, start, end, new, old, timestamp, context, final

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        if self.stored is not None:
            return self.stored.get(ident, start, end)
        left, right = self._left.read(ident, start, end), self._right.read(ident, start, end)
        try:
            return self._join.read(left, right)
        except Exception as error:
            raise OperatorFailed(self.node, "the joiner", None, None, None, None, error) from error

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        if self.stored is not None:
            return self.stored.entries(request)
        of = self.env.identity.of
        places = {
            (of(each.key), each.start, each.end): each.key
            for side in (self._left, self._right)
            for each in side.entries(request)
        }
        found = ((key, place, self.read(*place)) for place, key in places.items())
        return (StoreEntry(key, *entry, *place[1:]) for key, place, entry in found if entry is not None)


class SelfTableJoin(Operator):
    """A table joined with itself, or two views of one table, in strict mode: one result for each update.

    `left_of`, `right_of`: the value of each view for a value of the table."""

    def __init__(
        self,
        node: str,
        env: TaskEnvironment,
        join: TableJoin,
        left_of: Callable[[Any], Any],
        right_of: Callable[[Any], Any],
    ) -> None:
        super().__init__(node, env)
        self._join = join
        self._left_of = left_of
        self._right_of = right_of

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        for ident, key, start, end, new, old, timestamp, context, final in rows:
            try:
                result, before = self._result(new), self._result(old)
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.env.settle(OperatorFailed(self.node, "the joiner", new, key, start, end, error))
                continue
            if result is not None or before is not None:
                out.append((ident, key, start, end, result, before, timestamp, context, final))

    def _result(self, value: Any) -> Any:
        return None if value is None else self._join.result(self._left_of(value), self._right_of(value))
