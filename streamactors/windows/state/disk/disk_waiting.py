"""Objects on disk that wait for a time, and their times: what is due first is in memory.

Owner: one operator of one task. `Times` has the time and the key of each object. It is filled again when the task is restored, so what it
writes to disk belongs to this run alone and is not part of a cut."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, Generic, TypeAlias, TypeVar

from streamactors.windows.state.calendar_queue import NEVER
from streamactors.windows.state.disk.hot import Hot
from streamactors.windows.state.disk.task_disk import TaskDisk

T = TypeVar("T")

Item: TypeAlias = tuple[int, bytes]
"""A time, and the key that orders items of the same time."""

_TIME: Final = 8
_ENDLESS: Final[Item] = (NEVER, b"")
_ITEM_BYTES: Final = 1_000  # of the share; an item takes about 200 bytes, the objects take the rest
_SMALLEST: Final = 64


class Times:
    """A queue of items; of two equal ones it may give one. All items before the `horizon` are in memory, in a heap. Later ones are collected in memory and
    written together. `share`: returns the bytes of memory that the store may use."""

    def __init__(self, disk: TaskDisk, store: str, share: Callable[[], int]) -> None:
        self._spill = disk.spill(store)
        self._share = share
        self._near: list[Item] = []  # a heap
        self._far: list[Item] = []
        self._horizon = _ENDLESS
        self._on_disk = 0

    @property
    def in_memory(self) -> int:
        """Number of items in memory."""
        return len(self._near) + len(self._far)

    @property
    def _limit(self) -> int:
        return max(_SMALLEST, self._share() // _ITEM_BYTES)

    def push(self, time: int, key: bytes) -> None:
        """Put a key at a time."""
        item = (time, key)
        if item < self._horizon:
            heapq.heappush(self._near, item)
        else:
            self._far.append(item)
        if self.in_memory > self._limit:
            self._write_later()

    def first_time(self) -> int:
        """Return the smallest time, NEVER if there is no item."""
        return self._near[0][0] if self._near or self._advance() else NEVER

    def pop(self) -> Item:
        """Remove and return the first item. Raises IndexError if there is none."""
        if not self._near and not self._advance():
            raise IndexError("pop from an empty queue")
        return heapq.heappop(self._near)

    def items(self) -> Iterator[Item]:
        """Return all items, in no order."""
        yield from self._near
        yield from self._far
        for key in self._spill.all():
            yield int.from_bytes(key[:_TIME], "big"), key[_TIME:]

    def _write_later(self) -> None:
        """Keep in memory at most half of what may be there."""
        keep = self._limit // 2
        if len(self._near) > keep:
            self._near.sort()  # a sorted list is a heap, too
            self._horizon = self._near[keep]
            self._far += self._near[keep:]
            del self._near[keep:]
        self._write_far()

    def _write_far(self) -> None:
        self._spill.put([time.to_bytes(_TIME, "big") + key for time, key in self._far])
        self._on_disk += len(self._far)
        self._far = []

    def _advance(self) -> bool:
        """Fetch the first items after the horizon; False if there is none."""
        if self._on_disk:
            self._write_far()
            time, key = self._horizon
            most = self._limit // 2
            found = self._spill.take(time.to_bytes(_TIME, "big") + key, most)
            self._on_disk = self._on_disk - len(found) if len(found) == most else 0  # equal items are one on disk
            if not found:
                self._horizon = _ENDLESS
                return False
            self._near = [(int.from_bytes(each[:_TIME], "big"), each[_TIME:]) for each in found]
            last_time, last_key = self._near[-1]
            self._horizon = (last_time, last_key + b"\x00")
        else:
            heapq.heapify(self._far)
            self._near, self._far, self._horizon = self._far, [], _ENDLESS
        return bool(self._near)


class DiskWaiting(Generic[T]):
    """A Waiting. `key_of`: returns the changelog's key of an object's identity."""

    def __init__(self, hot: Hot[T], key_of: Callable[[Any], bytes]) -> None:
        self._hot = hot
        self._key_of = key_of
        self._count: int | None = None  # known after the first `len`

    def get(self, where: Any, /) -> T | None:
        return self._hot.get(self._key_of(where))

    def __setitem__(self, where: Any, entry: T, /) -> None:
        self._hot.put(self._key_of(where), entry)
        if self._count is not None:
            self._count += 1

    def __delitem__(self, where: Any, /) -> None:
        self._hot.remove(self._key_of(where))
        if self._count is not None:
            self._count -= 1

    def values(self) -> Iterator[T]:
        """Return all objects; what is read is not kept in memory."""
        return (entry for _, entry in self._hot.scan())

    def __len__(self) -> int:
        if self._count is None:
            self._count = len(self._hot)
        return self._count


class DiskClosingQueue(Generic[T]):
    """A ClosingQueue of windows that `find` reads when they close."""

    def __init__(self, times: Times, find: Callable[[int, bytes], T | None]) -> None:
        self._times = times
        self._find = find

    def push(self, time: int, tie: bytes, item: T, /) -> None:
        self._times.push(time, tie)

    def fill(
        self, items: Iterable[T], time_of: Callable[[T], int], tie_of: Callable[[T], bytes], from_time: int, /
    ) -> int:
        push, count = self._times.push, 0
        for item in items:
            time = time_of(item)
            if time >= from_time:
                push(time, tie_of(item))
                count += 1
        return count

    def first_time(self) -> int:
        return self._times.first_time()

    def pop_before(self, limit: int) -> list[tuple[int, bytes, T]]:
        times, found = self._times, []
        last: Item | None = None
        while times.first_time() < limit:
            item = times.pop()
            if item != last:  # a window that was deleted and came again has two equal items
                last = item
                window = self._find(*item)
                if window is not None:
                    found.append((*item, window))
        return found

    def items(self) -> Iterator[tuple[int, bytes, T]]:
        for item in dict.fromkeys(self._times.items()):
            window = self._find(*item)
            if window is not None:
                yield (*item, window)


class DiskQueue(Generic[T]):
    """A DueQueue of the objects of `hot`."""

    def __init__(self, hot: Hot[T], times: Times) -> None:
        self._hot = hot
        self._times = times

    def push(self, time: int, tie: bytes, item: T) -> None:
        self._times.push(time, tie)

    def first_time(self) -> int:
        return self._times.first_time()

    def pop(self) -> tuple[int, bytes, T]:
        time, key = self._times.pop()
        entry = self._hot.get(key)
        assert entry is not None, f"{key!r} waits for {time}, but the store does not have it"
        return time, key, entry
