"""The store of a derived table: the entries of a filter, a map_values or a join that has a name.

Owner: the operator that writes it. The key may be a window of a key, as in the table that it derives from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, Final

from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment
from streamactors.windows.operators.table_aggregate import TableEntry
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import Change, StoreLog, StoreReader, TaskIdentity, as_restored
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import snapshot


class StoredTable:
    """Entries by key, or by key and window."""

    def __init__(self, store: str, node: str, env: TaskEnvironment, stores: Stores) -> None:
        self.store: str | None = store
        self._env = env
        self._entries: MutableMapping[Ident, TableEntry] = stores.keyed(store, STORED_FORM)
        self._log = StoreLog(store, node, "derived table", env.track_changes)

    def get(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        """Return (value, timestamp) of an entry, or None."""
        entry = self._entries.get(_where(ident, start, end))
        return None if entry is None else (snapshot(entry.value), entry.timestamp)

    def put(self, ident: Ident, key: Any, start: int | None, end: int | None, value: Any, timestamp: int) -> None:
        """Write, replace or (None) delete an entry."""
        where = _where(ident, start, end)
        entry = self._entries.get(where)
        if value is None:
            if entry is not None:
                del self._entries[where]
                self._log.leave(key_bytes(where), entry)
            return
        value = snapshot(value)
        if entry is None:
            entry = self._entries[where] = TableEntry((snapshot(key), start, end), value, timestamp)
            self._log.touch(where, entry)
        else:
            entry.value, entry.timestamp = value, timestamp
            if not entry.dirty:
                self._log.touch(where, entry)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        """Return the entries among which a query from outside chooses."""
        if request.kind == "get":
            entry = self._entries.get(self._env.identity.of(request.key))
            if entry is not None:
                return iter((_shown(entry),))
        return map(_shown, list(self._entries.values()))

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries since the last call."""
        touched = ((key_bytes(where), _fields(entry)) for where, entry in self._log.touched())
        return self._log.changes(identity, {}, touched)

    def restore(self, reader: StoreReader) -> None:
        """Take back the entries of the changelog."""
        if reader.state(self._log) is not None:
            for fields in reader.entries():
                key, start, end = fields[:3]
                self._entries[_where(self._env.identity.of(key), start, end)] = _entry(fields)


def _shown(entry: TableEntry) -> StoreEntry:
    key, start, end = entry.key
    return StoreEntry(key, entry.value, entry.timestamp, start, end)


def _fields(entry: TableEntry) -> list[Any]:
    return [*entry.key, entry.value, entry.timestamp]


def _entry(fields: list[Any]) -> TableEntry:
    """Return the entry of a changelog entry."""
    key, start, end, value, timestamp = fields
    return as_restored(TableEntry((key, start, end), value, timestamp))  # type: ignore[no-any-return]


STORED_FORM: Final = Form(_fields, _entry, on_demand=True)


def _where(ident: Ident, start: int | None, end: int | None) -> Ident:
    if start is None or end is None:
        return ident
    return key_bytes(ident) + start.to_bytes(8, "big") + end.to_bytes(8, "big")
