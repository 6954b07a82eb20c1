"""Lists of objects on disk, one for each key, with the lists of some keys in memory.

Owner: one store of one task. The objects of a key are read together, when the first of them is needed, and forgotten together. The lists are
in two generations, like the objects of `hot.py`: memory is bounded by the share, except for the keys that changed since the last cut and for
the objects of one key.

Expired objects leave the disk at a cut: one pass over all entries finds them. A cut removes at most as many as the share holds; the next cut
continues from there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, Final, Generic, TypeVar

from streamactors.codec import CodecError, loads
from streamactors.windows.errors import RestoreError
from streamactors.windows.state.disk.hot import AFTER_ENTRIES, Share
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.key_lists import ListForm
from streamactors.windows.state.serdes import Ident, ident_of_bytes, key_bytes
from streamactors.windows.state.store_log import ENTRY, Logged

G = TypeVar("G", bound=Sized)
E = TypeVar("E", bound=Logged)

_TIME: Final = 8
_FAR_MS: Final = 1 << 56
_EXAMINED: Final = 4
"""A cut examines at most this many entries for each one that it may remove."""


class _OnDisk:
    """Takes the place of an object that has not been read."""

    dirty = False
    logged = True


_ON_DISK: Final = _OnDisk()


class DiskLists(Generic[G, E]):
    """The lists of rows of each key, on disk. `share`: returns the bytes of memory that the store may use."""

    def __init__(self, disk: TaskDisk, store: str, share: Callable[[], int], form: ListForm[G, E]) -> None:
        self._disk = disk
        self._store = store
        self._share = Share(share)
        self._form = form
        self._young: dict[Ident, G] = {}  # an empty list: the key is known to have no objects
        self._old: dict[Ident, G] = {}
        self._young_size = self._old_size = 0  # objects and lists
        self._kept = 0  # what the last change of generations could not forget
        self._changed: set[Ident] = set()  # since the last cut
        self._newest = _FAR_MS - 1
        self._expired_before = 0
        self._sweep_from: bytes | None = None

    # ── the list of one key ───────────────────────────────────────────────────────────────────────────────────────

    def get(self, ident: Ident, /) -> G | None:
        listed = self.list_of(ident)
        return listed if len(listed) else None

    def put(self, ident: Ident, listed: G, /) -> None:
        self._young_size += len(listed) - len(self.list_of(ident))
        self._young[ident] = listed

    def changed(self, ident: Ident, by: int) -> None:
        self._changed.add(ident)
        self._young_size += by

    def list_of(self, ident: Ident) -> G:
        """Return the list of a key; it may be empty."""
        listed = self._young.get(ident)
        if listed is None:
            listed = self._old.pop(ident, None)
            if listed is None:
                listed = self._read(ident)
            else:
                self._old_size -= len(listed) + 1
            self._young[ident] = listed
            self._young_size += len(listed) + 1
        return listed

    def _read(self, ident: Ident) -> G:
        """Return the list of a key from disk. Entries of other keys, which begin with this key, may lie between them."""
        key = ENTRY + key_bytes(ident)
        whole = len(key) + self._form.suffix
        until = key + (self._newest + 1).to_bytes(_TIME, "big")
        found = self._disk.scan(self._store, key, until)
        return self._form.listed(self._decoded(at, raw) for at, raw in found if len(at) == whole)

    def _decoded(self, key: bytes, raw: bytes) -> E:
        try:
            fields = loads(raw)
            found = self._form.of(fields)
        except (CodecError, TypeError, ValueError) as error:
            where = f"state of {self._store} in {self._disk.rocks.path}"
            raise RestoreError(f"{where}, key {key[1:41]!r}: {error}") from error
        self._share.weigh(1, len(raw) + len(key))
        return found

    def reach(self, newest_ms: int) -> None:
        """The store may have objects up to this time."""
        if newest_ms > self._newest:
            self._newest = newest_ms

    # ── all keys ──────────────────────────────────────────────────────────────────────────────────────────────────

    def objects(self) -> Iterator[E]:
        """Return the objects of all lists, in no order. What is read is not kept in memory."""
        known = self._young | self._old
        for listed in known.values():
            yield from self._form.objects(listed)
        for at, raw in self._disk.scan(self._store, ENTRY, AFTER_ENTRIES):
            if ident_of_bytes(at[1 : -self._form.suffix]) not in known:
                yield self._decoded(at, raw)

    def expire(self, before_ms: int) -> Iterator[tuple[bytes, Logged]]:
        """The objects before a time are no longer needed; `sweep` removes them."""
        if before_ms > self._expired_before:
            self._expired_before = before_ms
            if self._sweep_from is None:
                self._sweep_from = ENTRY
        return iter(())

    def sweep(self) -> Iterator[tuple[bytes, Logged]]:
        begin, before, suffix = self._sweep_from, self._expired_before, self._form.suffix
        if begin is None:
            return
        yield from self._forget_in_memory(before)
        most = self._share.limit
        self._sweep_from = None
        removed = 0
        for examined, (at, _) in enumerate(self._disk.scan(self._store, begin, AFTER_ENTRIES)):
            if removed >= most or examined >= _EXAMINED * most:
                self._sweep_from = at
                return
            if int.from_bytes(at[-suffix:][:_TIME], "big") < before:
                removed += 1
                yield at[1:], _ON_DISK

    def _forget_in_memory(self, before_ms: int) -> Iterator[tuple[bytes, E]]:
        form = self._form
        for lists in (self._young, self._old):
            for ident, listed in lists.items():
                for gone in form.drop(listed, before_ms):
                    yield form.key(ident, gone), gone
        self._young_size, self._old_size = _size(self._young), _size(self._old)

    # ── memory ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def in_memory(self) -> int:
        """Number of objects and lists in memory."""
        return self._young_size + self._old_size

    @property
    def pressed(self) -> bool:
        """True if entries that only the next cut can write fill the memory."""
        return self._share.exceeded_by(self.in_memory)

    def weigh(self, entries: int, size: int) -> None:
        """A cut wrote this number of entries, with this number of bytes."""
        self._share.weigh(entries, size)

    def taken(self) -> None:
        """The disk has taken a cut: the changed entries can be read from it."""
        self._changed.clear()
        self._kept = 0
        limit = self._share.limit
        if self._young_size > limit:
            self._young, self._young_size = {}, 0
        if self.in_memory > limit:
            self._old, self._old_size = {}, 0

    def rest(self) -> None:
        """No object is in use: forget those of the keys that were not used for long."""
        if self._young_size > self._share.limit // 2 + self._kept:
            changed = self._changed
            kept = {ident: listed for ident, listed in self._old.items() if ident in changed}
            self._old, self._old_size = self._young, self._young_size
            self._young, self._young_size = kept, _size(kept)
            self._kept = self._young_size


def _size(lists: dict[Ident, Any]) -> int:
    return sum(map(len, lists.values())) + len(lists)
