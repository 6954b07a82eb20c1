"""The key-value store of a processor, with TTL.

Expiry goes by the stream time of the task: an entry written at stream time t expires when stream time reaches t + ttl. Expired entries are
never read. They are removed, with a tombstone in the changelog, before the next row is processed.

The queue of expiries has one item for a key: an item whose entry was written again goes back into the queue when its time has come. On
disk the queue spills like the entries, and the store does not know whether a deleted key still has an item. So it rounds the time of the first
item of an entry down to a 64th of the TTL, and the queue keeps equal items once: a key that is deleted and written again and again has at most
65 items."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.state_store import Entry, StateStore
from streamactors.windows.processors.store_definitions import KeyValueStore
from streamactors.windows.processors.task_time import TaskTime
from streamactors.windows.state.calendar_queue import CalendarQueue
from streamactors.windows.state.key_order import has_run, is_number
from streamactors.windows.state.ordered_store import after_prefix
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.stores import ClosingQueue, Stores
from streamactors.windows.values import snapshot

_QUEUED: Final = 0
"""What the queue holds for a key."""
_BUCKETS: Final = 64


class Valued(Entry):
    """A key with its value; `expires`: the stream time at which it expires, None for never."""

    __slots__ = ("expires", "key", "value")

    def __init__(self, key: Any, value: Any, expires: int | None) -> None:
        self.key = key
        self.value = value
        self.expires = expires
        self.dirty = True
        self.logged = False

    def fields(self) -> list[Any]:
        return [self.key, self.value, self.expires]


class KeyValues(StateStore[Valued]):
    """What `context.store(name)` returns for a KeyValueStore."""

    entry = Valued

    def __init__(
        self, definition: KeyValueStore, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores
    ) -> None:
        super().__init__(definition, node, env, time, stores)
        self._ttl = definition.ttl_ms
        self._renews = definition.touch == "read"
        self._on_expire = definition.on_expire
        queue: CalendarQueue[int] = CalendarQueue((self._ttl or 0) // _BUCKETS)
        self._expiries: ClosingQueue[int] = queue
        self._deleted: set[bytes] | None = set()  # keys without entry that have an item in the queue; None: on disk
        if self._ttl is not None:
            self._expiries = stores.closing(self.name, queue, self._queued)
            if self._expiries is not queue:
                self._deleted = None

    @property
    def expires(self) -> bool:
        """True if entries expire."""
        return self._ttl is not None

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        at = self._key_bytes(key)
        entry = self._entries.get(at)
        if entry is None or not self._lives(entry):
            return None
        if self._renews:
            self._write(at, Valued(snapshot(key), entry.value, None))
        return snapshot(entry.value)

    def range(self, first: Any = None, last: Any = None, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Return (key, value) of the keys from `first` to `last`, both included; None: no bound.

        Numbers are ordered by value, other keys by their bytes; no number lies between other keys, and none of those between numbers."""
        if self._by_value and (is_number(first) or is_number(last)):
            if first is None or last is None or (is_number(first) and is_number(last)):
                return self._living(self._numbers(first, last, reverse=reverse))
            return iter(())
        if first is None and last is None:
            return self.items(reverse=reverse)
        low = None if first is None else self._key_bytes(first)
        high = None if last is None else self._key_bytes(last) + b"\x00"
        by_value = self._by_value
        return (found for found in self._shown(low, high, reverse) if not (by_value and has_run(found[0])))

    def prefix(self, prefix: Any, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Return (key, value) of the keys whose bytes begin with those of `prefix`, by key bytes."""
        low = self._key_bytes(prefix)
        return self._shown(low, after_prefix(low), reverse)

    def items(self, *, reverse: bool = False) -> Iterator[tuple[Any, Any]]:
        """Return (key, value) of all keys, in the order of `range`: numbers, then the others."""
        return self._living(self._in_order(reverse=reverse))

    def _living(self, entries: Iterator[Valued]) -> Iterator[tuple[Any, Any]]:
        return ((snapshot(entry.key), snapshot(entry.value)) for entry in entries if self._lives(entry))

    def _shown(self, low: bytes | None, high: bytes | None, reverse: bool) -> Iterator[tuple[Any, Any]]:
        if low is not None and high is not None and low >= high:
            return iter(())
        found = self._entries.scan(low, high, reverse=reverse)
        return ((snapshot(entry.key), snapshot(entry.value)) for _, entry in found if self._lives(entry))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, key: Any, value: Any) -> None:
        """Write the value of a key; None deletes the entry."""
        at = self._key_bytes(key)
        if value is None:
            self._remove(at)
        else:
            self._write(at, Valued(snapshot(key), snapshot(value), None))

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Write the value of a key that has none; return the value that the key has already, or None."""
        old = self.get(key)
        if old is None:
            self.put(key, value)
        return old

    def delete(self, key: Any) -> Any:
        """Delete the entry of a key; return its value, or None."""
        entry = self._remove(self._key_bytes(key))
        return entry.value if entry is not None and self._lives(entry) else None

    def _write(self, at: bytes, entry: Valued) -> None:
        if self._ttl is not None:
            entry.expires = max(self.time.stream_ms, 0) + self._ttl
            if not self._has_item(at):
                early = 0 if self._deleted is not None else entry.expires % max(1, self._ttl // _BUCKETS)
                self._expiries.push(entry.expires - early, at, _QUEUED)
        self._put(at, entry)

    def _has_item(self, at: bytes) -> bool:
        """True if the queue has an item for a key. The key is written now, so it must not be deleted."""
        before = self._entries.get(at)
        if before is not None:
            return before.expires is not None
        if self._deleted is None or at not in self._deleted:
            return False
        self._deleted.remove(at)
        return True

    def _remove(self, at: bytes) -> Valued | None:
        entry = super()._remove(at)
        if entry is not None and entry.expires is not None and self._deleted is not None:
            self._deleted.add(at)
        return entry

    def entries(self, request: StoreRequest) -> Iterator[StoreEntry]:
        if request.kind == "get":
            entry = self._entries.get(self._key_bytes(request.key))
            shown = [] if entry is None or not self._lives(entry) else [(snapshot(entry.key), entry.value)]
            return iter([StoreEntry(*each) for each in shown])
        if request.kind == "prefix":
            return (StoreEntry(*each) for each in self.prefix(request.key))
        return (StoreEntry(*each) for each in self.range(request.key, request.last))

    # ── expiry ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _lives(self, entry: Valued) -> bool:
        return entry.expires is None or entry.expires > self.time.stream_ms

    def expire(self, expired: Callable[[Callable[[Any, Any], Any], Any, Any], None]) -> None:
        """Remove the entries that have expired, oldest expiry first; each goes with `on_expire` to `expired`."""
        for expires, at in self._due():
            entry = self._entries.get(at)
            if entry is None or entry.expires is None:  # an earlier `on_expire` has deleted it
                if self._deleted is not None:
                    self._deleted.discard(at)
                continue
            if entry.expires != expires:  # an earlier `on_expire` has written it again
                self._expiries.push(entry.expires, at, _QUEUED)
                continue
            super()._remove(at)  # its item has left the queue
            if self._on_expire is not None:
                expired(self._on_expire, entry.key, entry.value)

    def _due(self) -> list[tuple[int, bytes]]:
        """Take the items whose time has come from the queue; return (expiry, key) of the entries that have expired, oldest expiry first."""
        now, due = self.time.stream_ms, set()
        if self._expiries.first_time() > now:
            return []
        for _, at, _ in self._expiries.pop_before(now + 1):
            if self._deleted is not None:
                self._deleted.discard(at)
            entry = self._entries.get(at)
            if entry is None or entry.expires is None:
                continue
            if entry.expires > now:
                self._expiries.push(entry.expires, at, _QUEUED)
            else:
                due.add((entry.expires, at))
        return sorted(due)

    def _queued(self, _: int, at: bytes) -> int | None:
        return None if self._entries.get(at) is None else _QUEUED

    def _at(self, entry: Valued) -> bytes:
        return self._key_bytes(entry.key)

    def _restored(self) -> None:
        if self._ttl is not None:
            for at, entry in self._entries.scan():
                if entry.expires is not None:
                    self._expiries.push(entry.expires, at, _QUEUED)
