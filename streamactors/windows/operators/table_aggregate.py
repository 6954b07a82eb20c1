"""Tables without windows: the running aggregate of a key, or its latest value.

Owner: WindowTask. The row loop skips and counts rows without key; an aggregation also skips rows without value, while for
`to_table` the value None deletes the entry. No row is late, because no window closes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from typing import Any, ClassVar

from streamactors.windows.definitions.aggregator import Aggregator, as_values
from streamactors.windows.operators.aggregate import Accepted, AggregateOperator
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import IMMUTABLE, snapshot


class TableEntry:
    """The value of a key and its timestamp."""

    __slots__ = ("dirty", "key", "logged", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, dirty: bool = True, logged: bool = False) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.dirty = dirty
        self.logged = logged


class TableOperator(AggregateOperator):
    """The state of a table without windows. Each accepted row forwards one update."""

    def __init__(self, node: str, store: str, env: TaskEnvironment, kind: str, stores: Stores) -> None:
        super().__init__(node, store, f"table of {kind}", env)
        self._table: MutableMapping[Ident, TableEntry] = stores.keyed(store, Form(_fields, _entry, on_demand=True))

    def _put(self, ident: Ident, entry: TableEntry | None, key: Any, value: Any, timestamp: int) -> None:
        """Write, replace or (None) delete the entry of a key. The value that the entry had leaves the store."""
        if type(value) not in IMMUTABLE:
            value = snapshot(value)
        if value is None:
            if entry is not None:
                del self._table[ident]
                self._log.leave(key_bytes(ident), entry)
        elif entry is None:
            self.env.identity.check(ident)
            entry = self._table[ident] = TableEntry(snapshot(key), value, timestamp)
            self._log.touch(ident, entry)
        else:
            entry.value, entry.timestamp = value, timestamp
            if not entry.dirty:
                self._log.touch(ident, entry)

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        entry = self._table.get(ident)
        return None if entry is None else (snapshot(entry.value), entry.timestamp)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        if request.kind == "get":
            entry = self._table.get(self.env.identity.of(request.key))
            return iter(() if entry is None else (StoreEntry(entry.key, entry.value, entry.timestamp),))
        return (StoreEntry(*each) for each in self.items())

    def items(self) -> Iterator[tuple[Any, Any, int]]:
        """Return (key, value, timestamp) of each entry."""
        return ((snapshot(entry.key), snapshot(entry.value), entry.timestamp) for entry in self._table.values())

    def _state(self) -> dict[str, Any]:
        return {}

    def _restore_state(self, state: dict[str, Any]) -> None:
        """A table needs no stream time."""

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for ident, entry in self._log.touched():
            yield key_bytes(ident), _fields(entry)

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        table, identify = self._table, self.env.identity.of
        for key, value, timestamp in entries:
            table[identify(key)] = TableEntry(key, value, timestamp, False, True)


def _fields(entry: TableEntry) -> list[Any]:
    return [entry.key, entry.value, entry.timestamp]


def _entry(fields: Sequence[Any]) -> TableEntry:
    key, value, timestamp = fields
    return TableEntry(key, value, timestamp, False, True)


class TableAggregate(TableOperator):
    """count, reduce or aggregate without windows; the timestamp is the largest of the aggregated rows."""

    needs_value: ClassVar[bool] = True

    def __init__(
        self,
        node: str,
        store: str,
        env: TaskEnvironment,
        aggregator: Aggregator,
        stores: Stores,
        *,
        old_from_init: bool = True,
    ) -> None:
        """`old_from_init`: the first update of a key carries the initial value as its old one, as in Kafka Streams."""
        super().__init__(node, store, env, aggregator.kind, stores)
        self._old_from_init = old_from_init
        self._init = aggregator.init
        self._add = as_values(aggregator.add)

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        add, entries = self._add, self._table
        for ident, record, timestamp in rows:
            entry = entries.get(ident)
            if entry is None:
                old = self._init()
            else:
                old = entry.value
                if entry.timestamp > timestamp:
                    timestamp = entry.timestamp
            new = add(old, record.value)
            self._put(ident, entry, record.key, new, timestamp)
            if entry is None and not self._old_from_init:
                old = None
            out.append((ident, record.key, None, None, new, old, timestamp, record.context, False))
