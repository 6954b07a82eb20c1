"""The first operator of a table that is made of records: the latest value of each key; None deletes.

Owner: TopologyTask. A table that no step reads back has no store: its updates carry no old values, and deletions of unknown
keys are forwarded like others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from streamactors.windows.operators.aggregate import Accepted
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.operators.table_aggregate import TableOperator
from streamactors.windows.state.stores import Stores


class TableSource(TableOperator):
    """`sends_old`: updates carry the value before."""

    def __init__(self, node: str, store: str, env: TaskEnvironment, stores: Stores, *, sends_old: bool) -> None:
        super().__init__(node, store, env, "latest values", stores)
        self._sends_old = sends_old

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        table, put, sends_old = self._table, self._put, self._sends_old
        for ident, record, timestamp in rows:
            entry = table.get(ident)
            old = entry.value if sends_old and entry is not None else None
            value = record.value
            put(ident, entry, record.key, value, timestamp)
            out.append((ident, record.key, None, None, value, old, timestamp, record.context, False))


class ExistingDeletions(TableSource):
    """A table of results that forwards a deletion only if the entry is there."""

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        table = self._table
        super()._take((each for each in rows if each[1].value is not None or each[0] in table), out)


class UnstoredTableSource(TableSource):
    """The updates of a table without a store."""

    def __init__(self, node: str, env: TaskEnvironment, stores: Stores) -> None:
        super().__init__(node, "", env, stores, sends_old=False)
        self.store = None

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        for ident, record, timestamp in rows:
            out.append((ident, record.key, None, None, record.value, None, timestamp, record.context, False))
