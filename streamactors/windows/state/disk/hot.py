"""Decoded objects in front of a task's disk: those read or written lately, and all that the next cut will write.

Owner: one store of one task. Two generations: an object that is used moves to the young one; when the young one is full, it becomes the
old one, and the objects of the former old one are forgotten unless the next cut must write them. So memory is bounded by `limit`, except for
what changed since the last cut; `pressed` says that a cut should come early."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from typing import Any, Final, Generic, TypeVar, cast

from streamactors.codec import CodecError, loads
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.ordered_store import MemoryOrderedStore
from streamactors.windows.state.store_log import ENTRY
from streamactors.windows.state.stores import Form

T = TypeVar("T")

_MISSING: Final[Any] = object()
_OBJECT_BYTES: Final = 400  # what a small object costs beside its bytes: itself, its fields, its places in two dicts
_BYTES_PER_BYTE: Final = 2


class Share:
    """The memory of one store. `share`: returns its bytes; `weigh` learns how large the store's entries are."""

    def __init__(self, share: Callable[[], int]) -> None:
        self._share = share
        self._seen = 1
        self._seen_bytes = 100

    def weigh(self, entries: int, size: int) -> None:
        """So many entries had so many bytes."""
        self._seen += entries
        self._seen_bytes += size

    @property
    def limit(self) -> int:
        """Number of objects that fit."""
        per_object = _OBJECT_BYTES + _BYTES_PER_BYTE * self._seen_bytes // self._seen
        return max(64, self._share() // per_object)

    def exceeded_by(self, objects: int) -> bool:
        """True if a cut should come early to free memory."""
        return objects > self.limit + self.limit // 2


class Hot(Generic[T]):
    """The entries in memory of one store on disk. `share`: returns the bytes of memory that the store may use. Keys are those of the changelog, without its prefix."""

    def __init__(self, disk: TaskDisk, store: str, form: Form[T], share: Callable[[], int]) -> None:
        self._disk = disk
        self._store = store
        self._form = form
        self._share = Share(share)
        self._young: dict[bytes, T | None] = {}  # None: the key is known to be gone
        self._old: dict[bytes, T | None] = {}
        self._changed: MemoryOrderedStore[T | None] = MemoryOrderedStore()  # since the last cut; None: removed
        self._removed: set[bytes] = set()
        self.reads = self.misses = 0  # looked for, and read from the disk
        self._kept = 0  # objects that the last change of generations could not forget

    @property
    def in_memory(self) -> int:
        """Number of objects in memory."""
        return len(self._young) + len(self._old)

    @property
    def pressed(self) -> bool:
        """True if entries that only the next cut can write fill the memory."""
        return self._share.exceeded_by(self.in_memory)

    def weigh(self, entries: int, size: int) -> None:
        """A cut wrote this number of entries, with this number of bytes."""
        self._share.weigh(entries, size)

    # ── one entry ─────────────────────────────────────────────────────────────────────────────────────────────────

    def get(self, key: bytes) -> T | None:
        """Return the object of a key, or None."""
        self.reads += 1
        entry = self._young.get(key, _MISSING)
        if entry is _MISSING:
            entry = self._old.pop(key, _MISSING)
            if entry is _MISSING:
                self.misses += 1
                raw = self._disk.get(self._store, ENTRY + key)
                entry = None if raw is None else self._decoded(key, raw)
            self._young[key] = entry
        return cast("T | None", entry)

    def put(self, key: bytes, entry: T) -> None:
        """Keep or replace the object of a key."""
        self._old.pop(key, None)  # an older object that was not read before
        self._young[key] = entry
        self._removed.discard(key)
        self._changed.put(key, entry)

    def remove(self, key: bytes) -> T | None:
        """Remove the object of a key; return it, or None."""
        entry = self.get(key)
        if entry is not None:
            self._young[key] = None
            self._changed.put(key, None)
            self._removed.add(key)
        return entry

    def _decoded(self, key: bytes, raw: bytes) -> T:
        try:
            fields = loads(raw)
        except CodecError as error:
            raise RestoreError(
                f"state of {self._store} in {self._disk.rocks.path}, key {key[:40]!r}: {error}"
            ) from error
        self._share.weigh(1, len(raw) + len(key))
        return self._form.of(fields)

    # ── many entries ──────────────────────────────────────────────────────────────────────────────────────────────

    def scan(
        self, low: bytes | None = None, high: bytes | None = None, *, reverse: bool = False
    ) -> Iterator[tuple[bytes, T]]:
        """Return the entries with low <= key < high, by key. What is read is not kept in memory."""
        upper = AFTER_ENTRIES if high is None else ENTRY + high
        stored = self._disk.scan(self._store, ENTRY + (low or b""), upper, backwards=reverse)
        changed = list(self._changed.scan(low, high, reverse=reverse))
        if not changed:
            return ((key[1:], self._shown(key[1:], raw)) for key, raw in stored)
        return self._merged(stored, changed, reverse)

    def _merged(
        self, stored: Iterator[tuple[bytes, bytes]], changed: list[tuple[bytes, T | None]], reverse: bool
    ) -> Iterator[tuple[bytes, T]]:
        replaced = {key for key, _ in changed}
        unchanged = ((key[1:], raw) for key, raw in stored if key[1:] not in replaced)
        both: Iterator[tuple[bytes, Any]] = heapq.merge(unchanged, changed, key=lambda entry: entry[0], reverse=reverse)
        for key, found in both:
            if key not in replaced:
                yield key, self._shown(key, found)
            elif found is not None:
                yield key, found

    def _shown(self, key: bytes, raw: bytes) -> T:
        """The object in memory if there is one: it may have changed in place."""
        entry = self._young.get(key) or self._old.get(key)
        return self._decoded(key, raw) if entry is None else entry

    def first(self, low: bytes | None = None) -> tuple[bytes, T] | None:
        """Return the entry with the smallest key >= low, or None."""
        removed, replaced = self._removed, self._changed
        changed = replaced.first(low)
        while changed is not None and changed[1] is None:
            changed = replaced.first(changed[0] + b"\x00")
        for key, raw in self._disk.scan(self._store, ENTRY + (low or b""), AFTER_ENTRIES):
            at = key[1:]
            if changed is not None and changed[0] <= at:
                break
            if at not in removed and replaced.get(at) is None:
                return at, self._shown(at, raw)
        return cast("tuple[bytes, T] | None", changed)

    def __len__(self) -> int:
        changed = dict(self._changed.scan())
        stored = sum(key[1:] not in changed for key, _ in self._disk.scan(self._store, ENTRY, AFTER_ENTRIES))
        return stored + sum(entry is not None for entry in changed.values())

    # ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────

    def taken(self) -> None:
        """The disk has taken a cut: the changed entries can be read from it."""
        self._changed = MemoryOrderedStore()
        self._removed.clear()
        self._kept = 0
        limit = self._share.limit
        if len(self._young) > limit:
            self._young = {}
        if self.in_memory > limit:
            self._old = {}

    def rest(self) -> None:
        """No object is in use: forget those that were not used for long."""
        if len(self._young) > self._share.limit // 2 + self._kept:
            changed, removed = self._changed, self._removed
            kept = {
                key: entry
                for key, entry in self._old.items()
                if (entry is None and key in removed)
                or (entry is not None and (changed.get(key) is not None or entry.dirty))  # type: ignore[attr-defined]
            }
            self._old, self._young, self._kept = self._young, kept, len(kept)


AFTER_ENTRIES: Final = bytes([ENTRY[0] + 1])
