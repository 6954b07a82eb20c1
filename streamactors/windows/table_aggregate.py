"""Tables without windows: the running aggregate of a key, or its latest value.

Owner: WindowTask. Rows without key are skipped and counted; an aggregation skips rows without value too, while for
`to_table` None deletes the entry. No row is ever late: there is no window to close."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping, Sequence
from typing import Any

from streamactors.windows.aggregator import Aggregator, as_values
from streamactors.windows.changelog import Change, StoreLog, StoreReader, TaskIdentity
from streamactors.windows.codec import dumps, key_bytes
from streamactors.windows.operator import FATAL, AggregateOperator, Ident, Surroundings
from streamactors.windows.record import Record
from streamactors.windows.stores import Stores


class Entry:
    """The value of a key and the timestamp that goes with it."""

    __slots__ = ("dirty", "key", "logged", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.dirty = True
        self.logged = False


class TableOperator(AggregateOperator):
    """State of a table without windows; every accepted row forwards one update."""

    def __init__(self, node: str, store: str, around: Surroundings, kind: str, stores: Stores) -> None:
        super().__init__(node, around)
        self.store = store
        self._entries: MutableMapping[Ident, Entry] = stores.keyed(store)
        self._log = StoreLog(store, node, f"table of {kind}", around.track_changes)

    def process(self, rows: Sequence[Record], out: list[Any]) -> None:
        identity = self.around.identity
        for record in rows:
            ident = record.key
            if ident is None or record.timestamp < 0:
                self._reject(record)
                continue
            try:
                if type(ident) is not identity.text:
                    ident = identity.of(ident)
                self._take(ident, record, out)
            except FATAL:
                raise
            except Exception as error:  # noqa: BLE001 - whatever user code raises
                self._failed(error, record)

    def _take(self, ident: Ident, record: Record, out: list[Any]) -> None:
        raise NotImplementedError

    def _put(self, ident: Ident, entry: Entry | None, key: Any, value: Any, timestamp: int) -> None:
        """Write, replace or (None) delete a key's entry."""
        if value is None:
            if entry is not None:
                del self._entries[ident]
                self._log.leave(key_bytes(ident), entry)
        elif entry is None:
            self.around.identity.check(ident)
            entry = self._entries[ident] = Entry(key, value, timestamp)
            self._log.touch(ident, entry)
        else:
            entry.value, entry.timestamp = value, timestamp
            if not entry.dirty:
                self._log.touch(ident, entry)

    def _release(self, out: list[Any]) -> None:
        """Nothing is held back here."""

    def read(self, key: Any, ident: Ident, start: int | None, end: int | None) -> tuple[Any, int | None] | None:
        entry = self._entries.get(ident)
        return None if entry is None else (entry.value, entry.timestamp)

    def changes(self, identity: TaskIdentity) -> Iterator[Change]:
        entries = {
            key_bytes(ident): dumps([entry.key, entry.value, entry.timestamp]) for ident, entry in self._log.touched()
        }
        return self._log.changes(identity, {}, entries)

    def restore(self, reader: StoreReader) -> None:
        if reader.state(self._log) is None:
            return
        for _, (key, value, timestamp) in reader.entries():
            entry = Entry(key, value, timestamp)
            entry.dirty, entry.logged = False, True
            self._entries[self.around.identity.of(key)] = entry


class TableAggregate(TableOperator):
    """count, reduce or aggregate without windows; the timestamp is the largest that went in."""

    def __init__(self, node: str, store: str, around: Surroundings, aggregator: Aggregator, stores: Stores) -> None:
        super().__init__(node, store, around, aggregator.kind, stores)
        self._init = aggregator.init
        self._add = as_values(aggregator.add)

    def _take(self, ident: Ident, record: Record, out: list[Any]) -> None:
        if record.value is None:
            self._reject(record)
            return
        entry = self._entries.get(ident)
        timestamp = record.timestamp
        if entry is None:
            old = self._init()
        else:
            old = entry.value
            timestamp = max(timestamp, entry.timestamp)
        new = self._add(old, record.value)
        self._put(ident, entry, record.key, new, timestamp)
        out.append((ident, record.key, None, None, new, old, timestamp, record.context, False))


class LatestValue(TableOperator):
    """The stream as a table: the value that came last, whatever its timestamp; None deletes."""

    def __init__(self, node: str, store: str, around: Surroundings, stores: Stores) -> None:
        super().__init__(node, store, around, "latest values", stores)

    def _take(self, ident: Ident, record: Record, out: list[Any]) -> None:
        entry = self._entries.get(ident)
        old = None if entry is None else entry.value
        self._put(ident, entry, record.key, record.value, record.timestamp)
        out.append((ident, record.key, None, None, record.value, old, record.timestamp, record.context, False))
