"""The order in which Java iterates hash tables.

Owner: the assignors. Apache Kafka's assignors iterate HashMap, HashSet and its own TimelineHashMap, so the result depends on their order.
A cluster with brokers of both kinds must not move partitions when another broker becomes the coordinator. Buckets that became trees (eight
colliding keys) are not reproduced: their order may differ, and the assignment is as balanced."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final, Generic, TypeVar

K = TypeVar("K")

_INT: Final = 1 << 32
_GOLDEN: Final = -7046029254386353131
_FIRST_SIZE: Final = 16


@lru_cache(maxsize=65_536)
def text_hash(text: str) -> int:
    """Return Java's hash of a string, unsigned."""
    units = text.encode("utf-16-be")
    found = 0
    for at in range(0, len(units), 2):
        found = (31 * found + (units[at] << 8 | units[at + 1])) % _INT
    return found


@lru_cache(maxsize=65_536)
def id_hash(topic_id: uuid.UUID) -> int:
    """Return the hash of a Uuid of Apache Kafka, unsigned."""
    mixed = (topic_id.int >> 64) ^ (topic_id.int % (1 << 64))
    return (mixed >> 32) ^ (mixed % _INT)


def number_hash(number: int) -> int:
    """Return Java's hash of an Integer, unsigned."""
    return number % _INT


def id_order(topic_id: uuid.UUID) -> tuple[int, int]:
    """Return the key by which Uuids are sorted: both halves are signed."""
    high, low = topic_id.int >> 64, topic_id.int % (1 << 64)
    return high - (1 << 64 if high >> 63 else 0), low - (1 << 64 if low >> 63 else 0)


def text_order(text: str) -> bytes:
    """Return the key by which Java sorts strings: UTF-16 code units."""
    return text.encode("utf-16-be")


class HashOrdered(Generic[K]):
    """A set with the iteration order of HashSet, or of the keys of HashMap."""

    __slots__ = ("_firsts", "_hash_of", "_keys", "_lasts", "_size")

    def __init__(self, hash_of: Callable[[K], int], keys: Iterable[K] = (), *, capacity: int = _FIRST_SIZE) -> None:
        self._hash_of = hash_of
        self._keys: dict[K, int] = {}  # the rank of each key within its bucket
        self._firsts = self._lasts = 0
        self._size = 1
        while self._size < capacity:
            self._size *= 2
        for key in keys:
            self.add(key)

    @classmethod
    def copy_of(cls, hash_of: Callable[[K], int], keys: Sequence[K]) -> HashOrdered[K]:
        """Return the set that HashSet's constructor makes of a collection."""
        return cls(hash_of, keys, capacity=max(int(len(keys) / 0.75) + 1, _FIRST_SIZE))

    def add(self, key: K) -> None:
        """Add a key at the end of its bucket, as `put` does; a known one stays where it is."""
        if key not in self._keys:
            self._lasts += 1
            self._keys[key] = self._lasts
            if len(self._keys) > self._size * 3 // 4:
                self._size *= 2

    def add_first(self, key: K) -> None:
        """Add a key at the beginning of its bucket, as `computeIfAbsent` does, which lets the table grow before."""
        if key not in self._keys:
            if len(self._keys) > self._size * 3 // 4:
                self._size *= 2
            self._firsts -= 1
            self._keys[key] = self._firsts

    def discard(self, key: K) -> None:
        """Remove a key, if it is there. The table does not shrink."""
        self._keys.pop(key, None)

    def __contains__(self, key: K) -> bool:
        return key in self._keys

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[K]:
        mask, hash_of, ranks = self._size - 1, self._hash_of, self._keys

        def place(key: K) -> tuple[int, int]:
            found = hash_of(key)
            return (found ^ found >> 16) & mask, ranks[key]

        return iter(sorted(ranks, key=place))


def timeline_order(keys: Iterable[str], table_size: int) -> list[str]:
    """Return the strings, given in the order of their insertion, as a TimelineHashMap with this table iterates them."""
    shift = 64 - (table_size.bit_length() - 1)

    def slot(key: str) -> int:
        found = text_hash(key)
        signed = found - _INT if found >> 31 else found
        return (signed * _GOLDEN) % (1 << 64) >> shift

    last_first = list(keys)[::-1]  # each slot is iterated from its last key
    return sorted(last_first, key=slot)


def timeline_table(table_size: int, count: int) -> int:
    """Return the size of the table of a TimelineHashMap after it has grown to `count` keys."""
    while count * 0.75 > table_size:
        table_size *= 2
    return table_size
