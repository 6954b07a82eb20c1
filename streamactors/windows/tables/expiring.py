"""A table of a topic whose entries expire: `topics.table(…, ttl=)`.

Owner: WindowTask. An entry expires when the stream time of its task reaches its timestamp + ttl. Expired entries are never read. After the row
that moved the time they are removed, in the order of their expiry, and a deletion of each is forwarded, with the time of the expiry. A row that comes
when its entry would have expired already is refused and counted.

The queue has one item for a key, as a rule. An item whose entry was written again goes back into the queue when its time has come. On disk
the table does not know whether a deleted key still has an item. So it rounds the times of the items of new entries down to a 64th of the TTL, and the
queue keeps equal items once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.windows.operators.aggregate import Accepted
from streamactors.windows.operators.operator import Found, Ident, TaskEnvironment
from streamactors.windows.operators.table_aggregate import TableEntry
from streamactors.windows.operators.windowed.late_rows import refuse_row
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.record import Record
from streamactors.windows.state.calendar_queue import CalendarQueue
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import ident_of_bytes, key_bytes
from streamactors.windows.state.store_log import StoreReader
from streamactors.windows.state.stores import ClosingQueue, Stores
from streamactors.windows.tables.source import TableSource
from streamactors.windows.values import snapshot

_QUEUED: Final = 0
"""What the queue holds for a key; items of one time and key are equal."""
_BUCKETS: Final = 64


class ExpiringTable(TableSource):
    """A table whose entries are deleted when their TTL is over."""

    def __init__(
        self,
        node: str,
        store: str,
        env: TaskEnvironment,
        stores: Stores,
        ttl_ms: int,
        time: TaskTime,
        *,
        sends_old: bool,
    ) -> None:
        super().__init__(node, store, env, stores, sends_old=sends_old)
        self._ttl = ttl_ms
        self._time = time
        queue: CalendarQueue[int] = CalendarQueue(ttl_ms // _BUCKETS)
        self._expiries: ClosingQueue[int] = stores.closing(store, queue, self._queued)
        self._gone: dict[Ident, int] | None = {}  # latest time of the item that a deleted key still has; None: on disk
        if self._expiries is not queue:
            self._gone = None
        self._forward: Callable[[list[Any]], None] | None = None
        time.processors.append(self)

    def bind(self, forward: Callable[[list[Any]], None]) -> None:
        """The steps downstream of the table, which get deletions."""
        self._forward = forward

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _take(self, rows: Iterator[Accepted], out: list[Any]) -> None:
        for ident, record, timestamp in rows:
            self._take_one(ident, record, timestamp, out)

    def _take_one(self, ident: Ident, record: Record, timestamp: int, out: list[Any]) -> None:
        expires = timestamp + self._ttl
        if expires <= self._time.stream_ms and record.value is not None:
            refuse_row(self.node, self.env, record, timestamp, timestamp, self._time.stream_ms, self._ttl)
            return
        before, gone = self._table.get(ident), self._gone
        item_by = None if before is None else before.timestamp + self._ttl
        super()._take(iter(((ident, record, timestamp),)), out)
        if record.value is None:
            if item_by is not None and gone is not None:
                gone[ident] = item_by
            return
        if before is None and gone is not None:
            item_by = gone.pop(ident, None)
        if item_by is None or item_by > expires:
            early = 0 if gone is not None else expires % max(1, self._ttl // _BUCKETS)
            self._expiries.push(expires - early, key_bytes(ident), _QUEUED)

    def start(self) -> None:
        """Nothing is due before the first row."""

    def call_timers(self) -> None:
        """A row has passed through the task: remove what has expired, and forward the deletions."""
        now = self._time.stream_ms
        if self._expiries.first_time() > now:
            return
        due: set[tuple[int, bytes]] = set()
        for _, tie, _ in self._expiries.pop_before(now + 1):
            ident = ident_of_bytes(tie)
            if self._gone is not None:
                self._gone.pop(ident, None)
            entry = self._table.get(ident)
            if entry is None:
                continue
            expires = entry.timestamp + self._ttl
            if expires > now:
                self._expiries.push(expires, tie, _QUEUED)
            else:
                due.add((expires, tie))
        out: list[Any] = []
        for expires, tie in sorted(due):
            ident = ident_of_bytes(tie)
            entry = self._table[ident]
            old = entry.value if self._sends_old else None
            self._put(ident, entry, entry.key, None, expires)
            out.append((ident, entry.key, None, None, None, old, expires, None, False))
        if out and self._forward is not None:
            self._forward(out)

    def close(self) -> None:
        """The task has ended."""

    def _queued(self, _: int, tie: bytes) -> int | None:
        return None if self._table.get(ident_of_bytes(tie)) is None else _QUEUED

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _lives(self, timestamp: int) -> bool:
        return timestamp + self._ttl > self._time.stream_ms

    def read(self, ident: Ident, start: int | None, end: int | None) -> Found | None:
        entry = self._table.get(ident)
        return None if entry is None or not self._lives(entry.timestamp) else (snapshot(entry.value), entry.timestamp)

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        return (each for each in super().entries(request) if self._lives(each.timestamp or 0))

    def items(self) -> Iterator[tuple[Any, Any, int]]:
        return (each for each in super().items() if self._lives(each[2]))

    # ── restoring ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _state(self) -> dict[str, Any]:
        return {"stream_time": self._time.stream_ms}

    def _restore_state(self, state: dict[str, Any]) -> None:
        self._time.restore(state)

    def restore(self, reader: StoreReader) -> None:
        super().restore(reader)
        for entry in self._table.values():
            self._queue(self.env.identity.of(entry.key), entry)

    def _queue(self, ident: Ident, entry: TableEntry) -> None:
        self._expiries.push(entry.timestamp + self._ttl, key_bytes(ident), _QUEUED)
