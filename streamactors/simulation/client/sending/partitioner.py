"""The partition of a record: librdkafka's partitioners.

Owner: the sender. Source: librdkafka's rdcrc32 and Java's murmur2. A record without a key goes to a random partition, which stays the same for
sticky.partitioning.linger.ms."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from zlib import crc32

from streamactors.kafka.client.connection import ck
from streamactors.simulation.client.errors import failure

_M: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C
_MASK: Final = 0xFFFFFFFF
_EMPTY_IS_KEY: Final = frozenset({"consistent", "murmur2"})


def murmur2(data: bytes) -> int:
    """Return Java's murmur2 hash as an unsigned number."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        value = value * _M & _MASK ^ k
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


@lru_cache(maxsize=65_536)
def _positive_murmur2(data: bytes) -> int:
    return murmur2(data) & 0x7FFFFFFF


class Partitioner:
    """Chooses partitions for one producer."""

    def __init__(self, name: str, sticky_ms: float, dice: random.Random, now_ms: Callable[[], float]) -> None:
        """Raises KafkaException (_INVALID_ARG) for a name that librdkafka does not know."""
        hashes: dict[str, Callable[[bytes], int]] = {"consistent": crc32, "murmur2": _positive_murmur2}
        kind = name.removesuffix("_random")
        if kind not in (*hashes, "random"):
            raise failure(
                ck.KafkaError._INVALID_ARG, f'Invalid value "{name}" for configuration property "partitioner"'
            )
        self._hash = hashes.get(kind)
        self._hashes_empty = name in _EMPTY_IS_KEY
        self._null_is_key = name == "murmur2" or name == "consistent"
        self._sticky_ms = sticky_ms
        self._dice = dice
        self._now_ms = now_ms
        self._sticky: dict[str, tuple[int, int, float]] = {}  # topic -> partition, count, until

    def choose(self, topic: str, key: bytes | None, count: int) -> int:
        """Return a partition of a topic with `count` partitions."""
        if self._hash is not None:
            if key is None:
                if self._null_is_key:
                    return self._hash(b"") % count
            elif key or self._hashes_empty or self._hash is not crc32:
                return self._hash(key) % count
        partition, known, until_ms = self._sticky.get(topic, (0, 0, 0.0))
        now_ms = self._now_ms()
        if known != count or now_ms >= until_ms:
            partition = self._dice.randrange(count)
            self._sticky[topic] = (partition, count, now_ms + self._sticky_ms)
        return partition
