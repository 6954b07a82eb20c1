"""The first operator of a table that is made of records: the latest value of each key; None deletes.

Owner: TopologyTask. A table that no step reads back has no store: its updates carry no old values, and deletions of unknown
keys are forwarded like others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from streamactors.windows.operators.aggregate import Accepted
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.operators.table_aggregate import TableOperator
from streamactors.windows.state.stores import Stores


class TableSource(TableOperator):
    """`sends_old`: updates carry the value before."""

    forwards_unknown: ClassVar[bool] = True
    """Deletions of keys that are not there are forwarded."""

    def __init__(self, node: str, store: str, env: TaskEnvironment, stores: Stores, *, sends_old: bool) -> None:
        super().__init__(node, store, env, "latest values", stores)
        self._sends_old = sends_old

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        table, put, sends_old, forwards_unknown = self._table, self._put, self._sends_old, self.forwards_unknown
        for ident, record, timestamp in rows:
            entry = table.get(ident)
            value = record.value
            if entry is None and value is None and not forwards_unknown:
                continue
            old = entry.value if sends_old and entry is not None else None
            put(ident, entry, record.key, value, timestamp)
            out.append((ident, record.key, None, None, value, old, timestamp, record.context, False))


class ExistingDeletions(TableSource):
    """A table of results that forwards a deletion only if the entry is there."""

    forwards_unknown = False


class UnstoredTableSource(TableSource):
    """The updates of a table without a store."""

    def __init__(self, node: str, env: TaskEnvironment, stores: Stores) -> None:
        super().__init__(node, "", env, stores, sends_old=False)
        self.store = None

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        for ident, record, timestamp in rows:
            out.append((ident, record.key, None, None, record.value, None, timestamp, record.context, False))
