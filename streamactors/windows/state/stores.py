"""The stores in which operators keep their state: one small interface, implemented in memory.

Owner: one operator of one task. Operators change the objects of a store in place and mark them dirty. A store that keeps
its objects elsewhere returns objects with the same attributes and writes the dirty ones back."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, MutableMapping, Sized
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from streamactors.windows.record import RecordContext
from streamactors.windows.state.grouped_store import GroupedStore, MemoryGroupedStore
from streamactors.windows.state.key_lists import KeyLists, ListForm, MemoryLists
from streamactors.windows.state.ordered_store import MemoryOrderedStore, OrderedStore
from streamactors.windows.state.row_store import MemoryRowStore, RowStore
from streamactors.windows.state.serdes import Ident, key_bytes
from streamactors.windows.state.store_log import pack_context

T = TypeVar("T")
S = TypeVar("S", bound=Sized)


class Cell:
    """A window of a key: the aggregate, its newest timestamp, and the context of the last contributing row.

    `prior` and `old` are the aggregate before the first and before the last update; a suppress buffer needs both."""

    __slots__ = ("context", "dirty", "key", "logged", "old", "prior", "timestamp", "value")

    def __init__(self, key: Any, value: Any, timestamp: int, context: RecordContext | None, prior: Any) -> None:
        self.key = key
        self.value = value
        self.timestamp = timestamp
        self.context = context
        self.prior = prior
        self.old = prior
        self.dirty = True
        self.logged = False

    def fields(self, start: int) -> list[Any]:
        """Its changelog entry, for the window that begins at `start`."""
        return [self.key, start, self.value, self.timestamp, pack_context(self.context), self.prior, self.old]


def cell_key(ident: Ident, start: int) -> bytes:
    """The key of a cell in the changelog."""
    return key_bytes(ident) + start.to_bytes(8, "big")


class WindowedStore(Protocol[T]):
    """Cells by window start, then key. Closing a window removes all its cells together."""

    def window(self, start: int) -> MutableMapping[Ident, T]:
        """Return the cells of a window; creates the window if needed."""

    def peek(self, start: int) -> MutableMapping[Ident, T] | None:
        """Return the cells of a window; None if there is no such window."""

    def first(self) -> int | None:
        """Return the smallest start."""

    def take_first(self) -> tuple[int, MutableMapping[Ident, T]]:
        """Remove the window with the smallest start; return the start and the cells."""

    def windows(self) -> Iterator[tuple[int, MutableMapping[Ident, T]]]:
        """Return all windows, in no order."""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How the objects of a store become the fields of changelog entries and of entries on disk, and how fields become objects.

    The codec (`streamactors.codec`) writes the fields, so they are of its types. `on_demand`: the store may read each object from disk when it is
    needed, and forget it. Then `of` takes exactly the fields of a changelog entry and returns an object marked as restored, the store's key is that
    of the changelog, and the operator's `restore` needs no entries. Without it the store is in memory, and restored as a whole."""

    fields: Callable[[T], list[Any]]
    of: Callable[[list[Any]], T]
    on_demand: bool = False


class Waiting(Protocol[T]):
    """Objects that wait for a time, by their identity."""

    def get(self, where: Any, /) -> T | None:
        """Return an object, or None."""

    def __setitem__(self, where: Any, entry: T, /) -> None:
        """Keep a new object."""

    def __delitem__(self, where: Any, /) -> None:
        """Remove an object."""

    def values(self) -> Iterable[T]:
        """Return all objects."""

    def __len__(self) -> int:
        """Return their number."""


class DueQueue(Protocol[T]):
    """Objects by time, then key."""

    def push(self, time: int, tie: bytes, item: T) -> None:
        """Put an object at a time; `tie`, its key in the changelog, orders objects of the same time."""

    def first_time(self) -> int:
        """Return the smallest time; NEVER if there is no object."""

    def pop(self) -> tuple[int, bytes, T]:
        """Remove and return the first object from the queue. Its caller removes it from the store."""


class ClosingQueue(Protocol[T]):
    """Windows by their ends, then by bytes that order windows of the same end."""

    def push(self, time: int, tie: bytes, item: T, /) -> None:
        """Put a window at its end."""

    def fill(
        self, items: Iterable[T], time_of: Callable[[T], int], tie_of: Callable[[T], bytes], from_time: int, /
    ) -> int:
        """Put those windows whose ends are not before `from_time`; return their number. End and bytes of a window never change."""

    def first_time(self) -> int:
        """Return the smallest end; NEVER if there is no window."""

    def pop_before(self, limit: int) -> list[tuple[int, bytes, T]]:
        """Remove and return all windows with end < `limit`, in order; those that are gone may be missing."""

    def items(self) -> Iterable[tuple[int, bytes, T]]:
        """Return all windows, in no order; those that are gone may be missing."""


class Stores(Protocol):
    """Makes the stores of one task. A store is asked for once by name; its operator keeps it."""

    def windowed(self, name: str, form: Form[Any] | None = None) -> WindowedStore[Any]:
        """Return a store of cells by window and key. `form`: lets the store read each cell from disk when it is needed."""

    def keyed(self, name: str, form: Form[Any] | None = None) -> MutableMapping[Ident, Any]:
        """Return a store of one object per key. `form`: lets the store read each object from disk when it is needed."""

    def ordered(self, name: str, form: Form[T]) -> OrderedStore[T]:
        """Return a store of objects ordered by key bytes."""

    def grouped(self, name: str, form: Form[T]) -> GroupedStore[T]:
        """Return a store of objects that are read in groups."""

    def queued(
        self, name: str, form: Form[T], key_of: Callable[[Any], bytes], queue: DueQueue[T]
    ) -> tuple[Waiting[T], DueQueue[T]]:
        """Return a store of objects that wait for a time, and the queue of their times. `key_of`: returns the key in the changelog of what
        identifies an object. `queue`: is used where the objects are in memory."""

    def listed(self, name: str, form: ListForm[Any, Any]) -> KeyLists[Any, Any]:
        """Return a store of a list of objects for each key."""

    def closing(self, name: str, queue: ClosingQueue[T], find: Callable[[int, bytes], T | None]) -> ClosingQueue[T]:
        """Return a queue of windows ordered by their ends. Stores in memory return `queue` itself. `find` returns the window of an item, None
        if the window is gone."""

    def rows(self, name: str) -> RowStore:
        """Return a store of the rows of one side of a join."""


class MemoryWindowedStore(Generic[T]):
    """A WindowedStore of dicts, with a heap of the starts."""

    __slots__ = ("_by_start", "_starts")

    def __init__(self) -> None:
        self._by_start: dict[int, dict[Ident, T]] = {}
        self._starts: list[int] = []

    def __len__(self) -> int:
        """Return the number of cells. O(windows)."""
        return sum(len(cells) for cells in self._by_start.values())

    def window(self, start: int) -> dict[Ident, T]:
        cells = self._by_start.get(start)
        if cells is None:
            cells = self._by_start[start] = {}
            heapq.heappush(self._starts, start)
        return cells

    def peek(self, start: int) -> dict[Ident, T] | None:
        return self._by_start.get(start)

    def first(self) -> int | None:
        return self._starts[0] if self._starts else None

    def take_first(self) -> tuple[int, dict[Ident, T]]:
        start = heapq.heappop(self._starts)
        return start, self._by_start.pop(start)

    def windows(self) -> Iterator[tuple[int, dict[Ident, T]]]:
        return iter(self._by_start.items())


class MemoryStores:
    """Stores that are dicts of this process. `made`: each by its name."""

    def __init__(self) -> None:
        self.made: dict[str, Sized] = {}

    def _known(self, name: str, store: S) -> S:
        self.made[name] = store
        return store

    def windowed(self, name: str, form: Form[Any] | None = None) -> MemoryWindowedStore[Any]:
        return self._known(name, MemoryWindowedStore())

    def keyed(self, name: str, form: Form[Any] | None = None) -> dict[Ident, Any]:
        found: dict[Ident, Any] = {}
        return self._known(name, found)

    def ordered(self, name: str, form: Form[T]) -> MemoryOrderedStore[T]:
        return self._known(name, MemoryOrderedStore())

    def grouped(self, name: str, form: Form[T]) -> MemoryGroupedStore[T]:
        return self._known(name, MemoryGroupedStore())

    def queued(
        self, name: str, form: Form[T], key_of: Callable[[Any], bytes], queue: DueQueue[T]
    ) -> tuple[Waiting[T], DueQueue[T]]:
        waiting: dict[Any, T] = {}
        return self._known(name, waiting), queue

    def listed(self, name: str, form: ListForm[Any, Any]) -> MemoryLists[Any, Any]:
        return self._known(name, MemoryLists(form))

    def closing(self, name: str, queue: ClosingQueue[T], find: Callable[[int, bytes], T | None]) -> ClosingQueue[T]:
        return queue

    def rows(self, name: str) -> MemoryRowStore:
        return self._known(name, MemoryRowStore())


class LayoutOfStores(MemoryStores):
    """Finds the stores of a task whose entries lie on disk by time, then key."""

    def __init__(self) -> None:
        super().__init__()
        self.time_first: set[str] = set()

    def windowed(self, name: str, form: Form[Any] | None = None) -> MemoryWindowedStore[Any]:
        if form is not None and form.on_demand:
            self.time_first.add(name)
        return super().windowed(name, form)
