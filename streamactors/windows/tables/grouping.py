"""The aggregation of a table by another key: subtract an entry's old value, add its new one.

Owner: WindowTask. `RegroupUpdates` sends each update to its groups, by way of a repartition topic: one message if the group
stays, else two, the old group first. The value of a message is (new, old). `GroupedTableAggregate` applies them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from streamactors.windows.definitions.aggregator import as_values
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.operators.aggregate import Accepted
from streamactors.windows.operators.operator import Operator, TaskEnvironment, Update
from streamactors.windows.operators.table_aggregate import TableOperator
from streamactors.windows.record import Record
from streamactors.windows.state.stores import Stores
from streamactors.windows.values import snapshot


@dataclass(frozen=True, slots=True)
class TableAggregator:
    """`add(aggregate, value)` and `subtract(aggregate, value)`. `init` of None: a reduce, whose first value is the aggregate."""

    kind: str
    init: Callable[[], Any] | None
    add: Callable[[Any, Any], Any]
    subtract: Callable[[Any, Any], Any]


class RegroupUpdates(Operator):
    """`fn(key, value)` returns (new key, new value); None for one of them leaves that half out. Windowed keys are tuples."""

    def __init__(self, node: str, env: TaskEnvironment, fn: Callable[[Any, Any], tuple[Any, Any]], skips_stale: bool):
        super().__init__(node, env)
        self._fn = fn
        self._skips_stale = skips_stale

    def process(self, rows: Sequence[Update], out: list[Any]) -> None:
        of, identify = self._of, self.env.identity.of
        for _, key, start, end, new, old, timestamp, context, final in rows:
            if final is None and self._skips_stale:
                continue
            full_key = key if start is None else (key, start, end)
            try:
                now, before = of(full_key, new), of(full_key, old)
                stays = now is not None and before is not None and identify(now[0]) == identify(before[0])
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self.env.settle(OperatorFailed(self.node, "the grouping", new, key, start, end, error))
                continue
            if stays and now is not None and before is not None:
                out.append(Record(now[0], (now[1], before[1]), timestamp, context))
                continue
            if before is not None:
                out.append(Record(before[0], (None, before[1]), timestamp, context))
            if now is not None:
                out.append(Record(now[0], (now[1], None), timestamp, context))

    def _of(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        if value is None:
            return None
        answer = self._fn(snapshot(key), value)
        if not isinstance(answer, tuple | list) or len(answer) != 2:
            raise TypeError(f"the function returned {answer!r}; return (new key, new value)")
        group, mapped = answer
        return None if group is None or mapped is None else (group, mapped)


class GroupedTableAggregate(TableOperator):
    """The table of the aggregates of the groups."""

    def __init__(
        self, node: str, store: str, env: TaskEnvironment, aggregator: TableAggregator, stores: Stores
    ) -> None:
        super().__init__(node, store, env, f"groups, {aggregator.kind}", stores)
        self._init = aggregator.init
        self._add = as_values(aggregator.add)
        self._subtract = as_values(aggregator.subtract)

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        init, entries = self._init, self._table
        for ident, record, timestamp in rows:
            new, old = record.value
            entry = entries.get(ident)
            before = aggregate = None if entry is None else entry.value
            time = timestamp
            if old is not None and entry is not None:
                aggregate = self._subtract(aggregate, old)
                time = max(timestamp, entry.timestamp)
            if new is not None:
                if aggregate is None and init is None:
                    aggregate = new
                else:
                    if aggregate is None and init is not None:
                        aggregate = init()
                    aggregate = self._add(aggregate, new)
                    if entry is not None:
                        time = max(timestamp, entry.timestamp)
            self._put(ident, entry, record.key, aggregate, time)
            out.append((ident, record.key, None, None, aggregate, before, time, record.context, False))
