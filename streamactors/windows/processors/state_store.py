"""What all stores of processors share: ordered entries, their changelog, and the time of the task.

Owner: the task. A store may be used by several processors of the task. As with Kafka Streams' bytes, what a processor puts is copied, and what it gets
is a copy: a processor that changes a value must put it again (`values.py`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, Final, Generic, TypeVar

from streamactors.errors import UnknownStore
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.processors.store_definitions import StoreDefinition
from streamactors.windows.processors.task_time import NO_TIME, TaskTime
from streamactors.windows.state.key_order import (
    ALL,
    BYTES,
    IN_ORDER,
    OTHERS,
    SIGNED,
    Run,
    has_run,
    kind_of,
    merged,
    number_runs,
    turned,
)
from streamactors.windows.state.ordered_store import OrderedStore
from streamactors.windows.state.reads import StoreEntry, StoreRequest
from streamactors.windows.state.serdes import default_bytes, key_bytes
from streamactors.windows.state.store_log import Change, StoreLog, StoreReader, TaskIdentity, as_restored
from streamactors.windows.state.stores import Form, Stores
from streamactors.windows.state.total_order import rank

_MOST: Final = (1 << 64) - 1


class Entry:
    """One entry of a store, by the fields of its changelog entry."""

    __slots__ = ("dirty", "logged")

    dirty: bool
    logged: bool
    key: Any

    def fields(self) -> list[Any]:
        """The fields of its changelog entry."""
        raise NotImplementedError


E = TypeVar("E", bound=Entry)


class StateStore(Generic[E]):
    """A store of one task. `store`: its name. `node`: the processor that defines it."""

    entry: type[E]

    def __init__(
        self, definition: StoreDefinition, node: str, env: TaskEnvironment, time: TaskTime, stores: Stores
    ) -> None:
        self.name = definition.name
        self.store: str | None = definition.name
        self.definition = definition
        self.env = env
        self.time = time
        self._log = StoreLog(self.name, node, definition.shape, env.track_changes)
        self._entries: OrderedStore[E] = stores.ordered(
            self.name, Form(lambda entry: entry.fields(), self._of_fields, on_demand=True)
        )
        self._newest = NO_TIME  # the largest time put
        self._swept_at = NO_TIME
        self._by_value = env.serdes.key is default_bytes  # numbers have the bytes that `key_order` knows
        self._kinds = 0 if self._by_value else OTHERS  # of all keys that were put

    def _of_fields(self, fields: list[Any]) -> E:
        return as_restored(self.entry(*fields))  # type: ignore[no-any-return]

    # ── entries ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _key_bytes(self, key: Any) -> bytes:
        if key is None:
            raise ValueError(f"store {self.name}: a key is None; drop such rows, or give them a key")
        return key_bytes(self.env.identity.of(key))

    def _in_order(self, suffix: int = 0, *, reverse: bool = False) -> Iterator[E]:
        """Return all entries: numbers by value, then other keys by their bytes. `suffix`: number of bytes after those of the key."""
        found = (entry for _, entry in self._entries.scan(reverse=reverse))
        if self._kinds in IN_ORDER:
            return found
        others = (entry for entry in found if not has_run(entry.key))
        numbers = self._numbers(None, None, suffix, reverse=reverse)
        return chain(others, numbers) if reverse else chain(numbers, others)

    def _numbers(self, first: Any, last: Any, suffix: int = 0, *, reverse: bool = False) -> Iterator[E]:
        """Return the entries whose keys are numbers from `first` to `last`, by value."""

        def run(each: Run) -> Iterator[tuple[tuple[Any, bytes], E]]:
            high = each.last + (b"\xff" * (suffix + 1) if suffix else b"\x00")
            for at, entry in self._entries.scan(each.low, high, reverse=each.reverse != reverse):
                if type(entry.key) is each.kind and len(at) == BYTES + suffix:
                    yield (rank(entry.key), at[:BYTES]), entry

        runs = number_runs(first, last)
        if not self._kinds & SIGNED:
            runs = [each for each in runs if each.kind is int and each.low[0] < 0x80]
        return merged([turned(run(each)) if suffix and each.reverse else run(each) for each in runs], reverse=reverse)

    def _put(self, at: bytes, entry: E) -> None:
        if self._by_value:
            self._kinds |= kind_of(entry.key)
        before = self._entries.get(at)
        if before is not None:
            entry.logged = before.logged
            if before.dirty:
                before.dirty = False
        self._entries.put(at, entry)
        self._log.touch(at, entry)

    def _remove(self, at: bytes) -> E | None:
        entry = self._entries.remove(at)
        if entry is not None:
            self._log.leave(at, entry)
        return entry

    def _sweep(self, expired_through: int, retention: int) -> None:
        """Remove entries whose time has expired; not at each put, because it looks at all entries."""
        if self._swept_at == NO_TIME:
            self._swept_at = expired_through
        elif expired_through - self._swept_at >= max(1, retention // 2):
            self._swept_at = expired_through
            for at, entry in list(self._entries.scan()):
                if self._is_expired(entry, expired_through):
                    self._remove(at)

    def _is_expired(self, entry: E, expired_through: int) -> bool:
        """Whether an entry is older than the retention of the store."""
        return False

    def approximate_count(self) -> int:
        """Number of entries; on disk an estimate."""
        return len(self._entries)

    def entries(self, request: StoreRequest) -> Iterable[StoreEntry]:
        """Return the entries among which a query from outside chooses."""
        raise UnknownStore(f"the store {self.store!r} cannot be read from outside")

    # ── changelog ─────────────────────────────────────────────────────────────────────────────────────────────────

    def changes(self, identity: TaskIdentity) -> Iterable[Change]:
        """Return the changelog entries of what changed since the last call."""
        changed = ((at, entry.fields()) for at, entry in self._log.touched())
        return self._log.changes(identity, self._state(), changed)

    def restore(self, reader: StoreReader) -> None:
        """Rebuild the store from its changelog. Raises RestoreError."""
        state = reader.state(self._log)
        if state is not None:
            self._restore_state(state)
            for fields in reader.entries():
                entry = self._of_fields(fields)
                self._entries.put(self._at(entry), entry)
            self._restored()

    def _state(self) -> dict[str, Any]:
        """What the store's metadata keeps."""
        return {"newest": self._newest, "stream_time": self.time.stream_ms, "kinds": self._kinds}

    def _restore_state(self, state: dict[str, Any]) -> None:
        self._newest = state["newest"]
        self.time.restore(state)
        self._kinds = state.get("kinds", ALL if self._by_value else OTHERS)  # an earlier release did not know

    def _at(self, entry: E) -> bytes:
        """The key bytes of an entry."""
        raise NotImplementedError

    def _restored(self) -> None:
        """All entries are back."""


def time_bytes(time_ms: int) -> bytes:
    """Return a time as 8 bytes; times below 0 or above 64 bits become the nearest time that fits."""
    return min(max(time_ms, 0), _MOST).to_bytes(8, "big")


def of_key(found: Iterator[tuple[bytes, E]], length: int) -> Iterator[E]:
    """Return the entries whose key has `length` bytes: those of one user key, where longer keys may lie between them."""
    return (entry for at, entry in found if len(at) == length)
