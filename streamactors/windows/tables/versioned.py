"""A versioned table: each key has its newest value and the values that were valid before, as far back as `history`.

Owner: WindowTask. A row is a version that is valid from its own time until the next version of its key. A row older than
stream time - history is refused and counted. Updates that are not the newest version carry `final` of None, so that joins and
aggregations of tables can skip them.

Kafka Streams (`kafka`) forgets a deletion that has the time of the newest version, unless the version before that one has a value: the newest
version is removed, and an older row that arrives later stays valid forever."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, MutableMapping
from operator import itemgetter
from typing import Any, Final

from streamactors.windows.operators.aggregate import Accepted, AggregateOperator
from streamactors.windows.operators.operator import NO_TIME, Found, Ident, TaskEnvironment
from streamactors.windows.operators.windowed.late_rows import refuse_row
from streamactors.windows.state.changelog_settings import versioned
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import key_bytes
from streamactors.windows.state.store_log import as_restored
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.values import snapshot

_time_of: Final = itemgetter(0)


class Versions:
    """The versions of one key: (valid from, value), ascending; the value None: deleted."""

    __slots__ = ("dirty", "key", "logged", "versions")

    def __init__(self, key: Any, versions: list[tuple[int, Any]]) -> None:
        self.key = key
        self.versions = versions
        self.dirty = True
        self.logged = False

    def put(self, time: int, value: Any) -> int | None:
        """Add or replace the version of `time`; return its end, None if it is the newest."""
        versions = self.versions
        at = bisect_right(versions, time, key=_time_of)
        if at and versions[at - 1][0] == time:
            versions[at - 1] = (time, value)
        else:
            versions.insert(at, (time, value))
            at += 1
        return versions[at][0] if at < len(versions) else None

    def as_of(self, time: int) -> tuple[int, Any] | None:
        """Return the version valid at `time`."""
        at = bisect_right(self.versions, time, key=_time_of)
        return self.versions[at - 1] if at else None

    def forgets(self, time: int, value: Any) -> bool:
        """True if Kafka Streams removes the newest version instead of putting this one."""
        versions = self.versions
        newest, last = versions[-1]
        return value is None and newest == time and last is not None and (len(versions) < 2 or versions[-2][1] is None)

    def prune(self, before: int) -> None:
        """Forget the versions that ended before a time."""
        versions = self.versions
        if len(versions) > 1 and versions[1][0] < before:
            at = bisect_right(versions, before - 1, key=_time_of)
            del versions[: at - 1]


def _fields(entry: Versions) -> list[Any]:
    return [entry.key, [list(version) for version in entry.versions]]


def _versions(fields: list[Any]) -> Versions:
    """Return the versions of a changelog entry."""
    key, versions = fields
    return as_restored(Versions(key, [(at, value) for at, value in versions]))  # type: ignore[no-any-return]


VERSIONS_FORM: Final = Form(_fields, _versions, on_demand=True)


class VersionedTable(AggregateOperator):
    """The table of a topic or a stream, with its history."""

    def __init__(
        self,
        node: str,
        store: str,
        env: TaskEnvironment,
        stores: Stores,
        history_ms: int,
        *,
        sends_old: bool,
        kafka: bool,
    ) -> None:
        super().__init__(node, store, f"versions of {history_ms} ms", env)
        self._table: MutableMapping[Ident, Versions] = stores.keyed(store, VERSIONS_FORM)
        self._history = history_ms
        env.changelog_settings[store] = versioned(history_ms)
        self._sends_old = sends_old
        self._kafka = kafka

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        table, sends_old = self._table, self._sends_old
        for ident, record, timestamp in rows:
            expired = self.stream_time - self._history
            if timestamp < expired:
                refuse_row(self.node, self.env, record, timestamp, timestamp, self.stream_time, self._history)
                continue
            entry = table.get(ident)
            old, value = None, snapshot(record.value)
            if entry is None:
                self.env.identity.check(ident)
                entry = table[ident] = Versions(snapshot(record.key), [(timestamp, value)])
                end = None
                self._log.touch(ident, entry)
            else:
                old = snapshot(entry.versions[-1][1]) if sends_old else None
                if self._kafka and entry.forgets(timestamp, record.value):
                    del entry.versions[-1]
                    end = None
                else:
                    end = entry.put(timestamp, value)
                entry.prune(expired)
                if not entry.versions:
                    del table[ident]
                    self._log.leave(key_bytes(ident), entry)
                elif not entry.dirty:
                    self._log.touch(ident, entry)
            final = False if end is None else None
            out.append((ident, record.key, None, None, record.value, old, timestamp, record.context, final))

    def idle(self, beyond_ms: int, out: list[Any]) -> None:
        """Rows alone move the time of a table: silence makes no version older."""

    def end(self, out: list[Any]) -> None:
        """The table holds nothing back, and rows that waited in a join still need the versions of their times."""

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        entry = self._table.get(ident)
        if entry is None:
            return None
        time, value = entry.versions[-1]
        return None if value is None else (snapshot(value), time)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        """Return the newest version of each key that has a value."""
        if request.kind == "get":
            entry = self._table.get(self.env.identity.of(request.key))
            found = [] if entry is None else [entry]
        else:
            found = list(self._table.values())
        return (
            StoreEntry(each.key, value, time)
            for each in found
            for time, value in each.versions[-1:]
            if value is not None
        )

    def read_as_of(self, ident: Ident, time_ms: int) -> Found | None:
        entry = self._table.get(ident)
        if entry is None:
            return None
        newest = entry.versions[-1]
        if newest[0] > time_ms:
            if time_ms < self.stream_time - self._history:
                return None
            found = entry.as_of(time_ms)
            if found is None:
                return None
            newest = found
        time, value = newest
        return None if value is None else (snapshot(value), time)

    def _entries(self) -> Iterator[tuple[bytes, list[Any]]]:
        for ident, entry in self._log.touched():
            yield key_bytes(ident), _fields(entry)

    def _restore_entries(self, entries: Iterable[list[Any]]) -> None:
        table, identify = self._table, self.env.identity.of
        for fields in entries:
            table[identify(fields[0])] = _versions(fields)

    def _restore_state(self, state: dict[str, Any]) -> None:
        self.stream_time = max(NO_TIME, state["stream_time"])
