"""The first operator of a table that is made of records: the latest value of each key; None deletes.

Owner: WindowTask. A table that no step reads back has no store: its updates carry no old values, and deletions of unknown
keys are forwarded like others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from streamactors.clock import SECONDS_FROM, SECONDS_TO
from streamactors.windows.operators.aggregate import Accepted
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.operators.table_aggregate import TableOperator
from streamactors.windows.record import Record
from streamactors.windows.state.stores import Stores


class TableSource(TableOperator):
    """`sends_old`: updates carry the value before."""

    forwards_unknown: ClassVar[bool] = True
    """Deletions of keys that are not there are forwarded."""

    def __init__(self, node: str, store: str, env: TaskEnvironment, stores: Stores, *, sends_old: bool) -> None:
        super().__init__(node, store, env, "latest values", stores)
        self._sends_old = sends_old
        self._text = env.identity.text

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        if len(rows) == 1:
            [record] = rows
            if type(record) is Record and type(record.key) is self._text and record.timestamp >= 0:
                ident: Any = record.key
                if SECONDS_FROM <= record.timestamp < SECONDS_TO:
                    self._look_at_time(record)
                try:
                    self._take(iter(((ident, record, record.timestamp),)), out)
                except Exception as error:  # noqa: BLE001 - a key that has no bytes
                    self._failed(error, record)
                return
        super().process(rows, out)

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        table, put, sends_old = self._table, self._put, self._sends_old
        for ident, record, timestamp in rows:
            entry, value = table.get(ident), record.value
            if entry is None and value is None and not self.forwards_unknown:
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
