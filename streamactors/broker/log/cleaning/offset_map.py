"""Key -> latest offset, for one pass of compaction, in bounded memory.

Owner: the cleaner. Keys of 16 bytes and more are stored as a 128-bit hash keyed by a secret of this process, so a client
cannot construct a collision."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

HASH_SIZE: Final = 16
ENTRY_BYTES: Final = 160
"""Memory of one dict entry: key object, offset object, slot."""

_SECRET: Final = os.urandom(16)


class OffsetMap:
    """The latest offset of each key. `latest_offset` is the last offset that the map covers."""

    __slots__ = ("_capacity", "_hash", "_offsets", "latest_offset")

    def __init__(self, memory_bytes: int) -> None:
        from hashlib import blake2b  # loads OpenSSL, 3 MB that a broker without compacted data does not need

        self._hash: Callable[..., Any] = blake2b
        self._capacity = max(1, memory_bytes // ENTRY_BYTES)
        self._offsets: dict[bytes, int] = {}
        self.latest_offset = -1

    def put(self, key: bytes, offset: int) -> bool:
        """Set the offset of a key; offsets grow from call to call. Return False without a change if the map is full."""
        short = self._short(key)
        if len(self._offsets) >= self._capacity and short not in self._offsets:
            return False
        self._offsets[short] = offset
        return True

    def get(self, key: bytes) -> int:
        """Return the key's latest offset, -1 if it was never put."""
        return self._offsets.get(self._short(key), -1)

    def __len__(self) -> int:
        return len(self._offsets)

    def _short(self, key: bytes) -> bytes:
        return key if len(key) < HASH_SIZE else self._hash(key, digest_size=HASH_SIZE, key=_SECRET).digest()
