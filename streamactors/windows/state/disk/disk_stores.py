"""The stores of one task on its disk.

Owner: the task. Tables and their views, time windows, joins, suppress buffers and stores of processors read an entry when they need it (`lazy`);
the others are read as a whole when the task is restored. All of them are written by the same cuts."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, Final, TypeVar

from streamactors.windows.state.disk.disk_lists import DiskLists
from streamactors.windows.state.disk.disk_rows import DiskRowStore
from streamactors.windows.state.disk.disk_waiting import DiskClosingQueue, DiskQueue, DiskWaiting, Times
from streamactors.windows.state.disk.hot import AFTER_ENTRIES, Hot
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.grouped_store import GroupedStore, GroupsInOrder
from streamactors.windows.state.key_lists import ListForm
from streamactors.windows.state.ordered_store import MemoryOrderedStore, OrderedStore
from streamactors.windows.state.serdes import Ident, ident_of_bytes, key_bytes
from streamactors.windows.state.store_log import ENTRY, META_KEY, Change, StoreReader, TaskIdentity
from streamactors.windows.state.stores import ClosingQueue, DueQueue, Form, MemoryWindowedStore, Waiting, WindowedStore

T = TypeVar("T")

_TIME: Final = 8


class DiskStores:
    """Makes the stores of one task. `share()`: the bytes of memory that one store may use for decoded objects."""

    def __init__(self, disk: TaskDisk, share: Callable[[], int]) -> None:
        self.disk = disk
        self._share = share
        self._hot: dict[str, Hot[Any] | DiskLists[Any, Any]] = {}
        self._times: dict[str, Times] = {}

    def keyed(self, name: str, form: Form[T] | None = None) -> MutableMapping[Ident, Any]:
        """Return a store of one object per key."""
        return {} if form is None or not form.on_demand else DiskKeyed(self._hot_of(name, form))

    def ordered(self, name: str, form: Form[T]) -> OrderedStore[T]:
        """Return a store of objects ordered by key bytes."""
        return self._hot_of(name, form) if form.on_demand else MemoryOrderedStore()

    def grouped(self, name: str, form: Form[T]) -> GroupedStore[T]:
        """Return a store of objects that are read in groups."""
        return GroupsInOrder(self.ordered(name, form))

    def windowed(self, name: str, form: Form[T] | None = None) -> WindowedStore[Any]:
        """Return a store of cells by window and key."""
        return (
            MemoryWindowedStore() if form is None or not form.on_demand else DiskWindowedStore(self._hot_of(name, form))
        )

    def queued(
        self, name: str, form: Form[T], key_of: Callable[[Any], bytes], queue: DueQueue[T]
    ) -> tuple[Waiting[T], DueQueue[T]]:
        """Return a store of objects that wait for a time, and the queue of their times; `queue` is for stores in memory."""
        hot = self._hot_of(name, form)
        times = self._times[name] = Times(self.disk, name, self._share)
        return DiskWaiting(hot, key_of), DiskQueue(hot, times)

    def listed(self, name: str, form: ListForm[Any, Any]) -> DiskLists[Any, Any]:
        """Return a store of a list of objects for each key."""
        lists = self._hot[name] = DiskLists(self.disk, name, self._share, form)
        return lists

    def closing(self, name: str, queue: ClosingQueue[T], find: Callable[[int, bytes], T | None]) -> ClosingQueue[T]:
        """Return a queue of windows by their ends; `find` returns the window of an item of the queue."""
        times = self._times[name] = Times(self.disk, name, self._share)
        return DiskClosingQueue(times, find)

    def rows(self, name: str) -> DiskRowStore:
        """Return a store of the rows of one side of a join."""
        rows = self._hot[name] = DiskRowStore(self.disk, name, self._share)
        return rows

    def _hot_of(self, name: str, form: Form[T]) -> Hot[T]:
        hot = self._hot[name] = Hot(self.disk, name, form, self._share)
        return hot

    def reader(self, store: str, identity: TaskIdentity) -> StoreReader:
        """Return what a store is restored from."""
        return DiskReader(store, identity, self.disk, lazy=store in self._hot)

    def take(self, changes: Sequence[Change]) -> None:
        """Take the entries of a cut."""
        self.disk.take(changes)
        written = {store: [0, 0] for store in self._hot}
        for store, key, value in changes:
            if value is not None and store in written:
                written[store][0] += 1
                written[store][1] += len(key) + len(value)
        for store, hot in self._hot.items():
            hot.weigh(*written[store])
            hot.taken()

    def rest(self) -> None:
        """Called when no object is in use: drop decoded objects beyond the bound of the memory."""
        for hot in self._hot.values():
            hot.rest()

    @property
    def in_memory(self) -> dict[str, int]:
        """Number of objects in memory, of each store that reads from disk when it needs."""
        objects = {store: hot.in_memory for store, hot in self._hot.items()}
        return objects | {f"{store} (times)": times.in_memory for store, times in self._times.items()}

    @property
    def bytes_on_disk(self) -> int:
        """Bytes of the files of all stores together."""
        return self.disk.rocks.bytes_on_disk

    @property
    def hits(self) -> dict[str, float]:
        """The share of reads that needed no disk, of each store that reads from disk when it needs and has been read."""
        found = {store: (hot.reads, hot.misses) for store, hot in self._hot.items() if isinstance(hot, Hot)}
        return {store: round(1 - misses / reads, 4) for store, (reads, misses) in found.items() if reads}

    @property
    def pressed(self) -> bool:
        """True if a cut should come early, because only a cut can free memory."""
        return any(hot.pressed for hot in self._hot.values())


class DiskReader(StoreReader):
    """The entries of a store on disk. `lazy`: the store reads them itself when they are needed."""

    def __init__(self, store: str, identity: TaskIdentity, disk: TaskDisk, *, lazy: bool) -> None:
        super().__init__(store, identity)
        self._disk = disk
        self._lazy = lazy
        meta = disk.get(store, META_KEY)
        found = (META_KEY, meta) if meta is not None else next(disk.scan(store), None)
        if found is not None:
            self.add(*found)

    def entries(self) -> Iterator[list[Any]]:
        if not self._lazy:
            for key, value in self._disk.scan(self.store, ENTRY, AFTER_ENTRIES):
                yield self._decode(key, value)


class DiskKeyed(MutableMapping[Ident, Any]):
    """Objects by ident."""

    def __init__(self, hot: Hot[Any]) -> None:
        self._hot = hot

    def get(self, ident: Ident, default: Any = None) -> Any:
        found = self._hot.get(key_bytes(ident))
        return default if found is None else found

    def __getitem__(self, ident: Ident) -> Any:
        found = self._hot.get(key_bytes(ident))
        if found is None:
            raise KeyError(ident)
        return found

    def __setitem__(self, ident: Ident, entry: Any) -> None:
        self._hot.put(key_bytes(ident), entry)

    def __delitem__(self, ident: Ident) -> None:
        if self._hot.remove(key_bytes(ident)) is None:
            raise KeyError(ident)

    def __iter__(self) -> Iterator[Ident]:
        return (ident_of_bytes(key) for key, _ in self._hot.scan())

    def values(self) -> Any:
        """All objects; what is read is not kept in memory."""
        return (entry for _, entry in self._hot.scan())

    def __len__(self) -> int:
        return len(self._hot)


class DiskCells(MutableMapping[Ident, Any]):
    """The cells of one window by ident."""

    def __init__(self, hot: Hot[Any], start: int) -> None:
        self._hot = hot
        self._at = start.to_bytes(_TIME, "big")

    def get(self, ident: Ident, default: Any = None) -> Any:
        found = self._hot.get(self._at + key_bytes(ident))
        return default if found is None else found

    def __getitem__(self, ident: Ident) -> Any:
        found = self._hot.get(self._at + key_bytes(ident))
        if found is None:
            raise KeyError(ident)
        return found

    def __setitem__(self, ident: Ident, cell: Any) -> None:
        self._hot.put(self._at + key_bytes(ident), cell)

    def __delitem__(self, ident: Ident) -> None:
        if self._hot.remove(self._at + key_bytes(ident)) is None:
            raise KeyError(ident)

    def _found(self) -> Iterator[tuple[bytes, Any]]:
        return self._hot.scan(self._at, self._at + b"\xff" * 1_024 if self._at == b"\xff" * _TIME else _next(self._at))

    def __iter__(self) -> Iterator[Ident]:
        return (ident_of_bytes(key[_TIME:]) for key, _ in self._found())

    def values(self) -> Any:
        """All cells; what is read is not kept in memory."""
        return (cell for _, cell in self._found())

    def __len__(self) -> int:
        return sum(1 for _ in self._found())

    def drained(self) -> dict[Ident, Any]:
        """Remove all cells; return them."""
        found = {ident_of_bytes(key[_TIME:]): cell for key, cell in list(self._found())}
        for ident in found:
            self._hot.remove(self._at + key_bytes(ident))
        return found


class DiskWindowedStore:
    """A WindowedStore whose cells lie on disk by start, then key. The starts are in memory."""

    def __init__(self, hot: Hot[Any]) -> None:
        self._hot = hot
        self._by_start: dict[int, DiskCells] = {}
        self._starts: list[int] = []
        self._known = False

    def _look(self) -> None:
        """Find the windows that the disk has, once."""
        self._known = True
        at: bytes | None = b""
        while at is not None:
            found = next(self._hot.scan(at), None)
            at = None
            if found is not None:
                start = found[0][:_TIME]
                self.window(int.from_bytes(start, "big"))
                at = None if start == b"\xff" * _TIME else _next(start)

    def window(self, start: int) -> DiskCells:
        cells = self._by_start.get(start)
        if cells is None:
            if not self._known:
                self._look()
                return self.window(start)
            cells = self._by_start[start] = DiskCells(self._hot, start)
            heapq.heappush(self._starts, start)
        return cells

    def peek(self, start: int) -> DiskCells | None:
        if not self._known:
            self._look()
        return self._by_start.get(start)

    def first(self) -> int | None:
        if not self._known:
            self._look()
        return self._starts[0] if self._starts else None

    def take_first(self) -> tuple[int, dict[Ident, Any]]:
        start = heapq.heappop(self._starts)
        return start, self._by_start.pop(start).drained()

    def windows(self) -> Iterator[tuple[int, DiskCells]]:
        if not self._known:
            self._look()
        return iter(self._by_start.items())


def _next(start: bytes) -> bytes:
    return (int.from_bytes(start, "big") + 1).to_bytes(len(start), "big")
