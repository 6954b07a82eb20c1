"""The partition of an internal topic that stores a group id or transactional id.

Rule: Apache Kafka's, because both brokers read the same data folder: Java's String.hashCode over UTF-16 units, its absolute
value (0 for the one int that has none), modulo the number of partitions."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_LONGEST_KEPT: Final = 256


def partition_for(key: str, partitions: int) -> int:
    """Return the partition of a group id or transactional id in a topic of `partitions` partitions."""
    # Any client may send any id: long ids would fill the memory.
    return (_kept if len(key) <= _LONGEST_KEPT else _partition_for)(key, partitions)


def _partition_for(key: str, partitions: int) -> int:
    value = java_hash(key)
    if value >= 0x8000_0000:
        value = 0x1_0000_0000 - value
    return 0 if value == 0x8000_0000 else value % partitions


_kept = lru_cache(maxsize=65_536)(_partition_for)


def java_hash(text: str) -> int:
    """Return Java's String.hashCode() as an unsigned 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFF_FFFF
    return value
