"""The last ten minutes: one compressed frame a second, bounded in count and in bytes.

When the frames need more bytes than allowed, every second one is dropped: the past gets coarser, not shorter.
Pure and thread-safe; owner: the sampler."""

from __future__ import annotations

import bisect
import threading
import zlib
from typing import Final

MOST_FRAMES: Final = 600
MOST_BYTES: Final = 32 << 20


class History:
    """Frames by the moment at which they were made."""

    def __init__(self, most_frames: int = MOST_FRAMES, most_bytes: int = MOST_BYTES) -> None:
        self._most_frames = most_frames
        self._most_bytes = most_bytes
        self._moments: list[int] = []
        self._frames: dict[int, bytes] = {}
        self._size = 0
        self._lock = threading.Lock()

    def add(self, at_ms: int, frame: bytes) -> None:
        """Keep a frame. Moments must rise; a frame of an earlier or the same moment is ignored."""
        packed = zlib.compress(frame, 1)
        with self._lock:
            if self._moments and at_ms <= self._moments[-1]:
                return
            self._moments.append(at_ms)
            self._frames[at_ms] = packed
            self._size += len(packed)
            while len(self._moments) > self._most_frames:
                self._drop(0)
            while self._size > self._most_bytes and len(self._moments) > 1:
                self._thin()

    def _drop(self, index: int) -> None:
        self._size -= len(self._frames.pop(self._moments.pop(index)))

    def _thin(self) -> None:
        n = len(self._moments)
        for index in reversed(range(1, n - 1, 2)) if n > 2 else (0,):  # the oldest and the newest stay
            self._drop(index)

    @property
    def size(self) -> int:
        """The bytes of all frames."""
        return self._size

    def moments(self) -> list[int]:
        """Return the moments of the frames, the oldest first."""
        with self._lock:
            return list(self._moments)

    def at(self, at_ms: int) -> bytes | None:
        """Return the last frame of that moment or before; the first one for an earlier moment; None without frames."""
        with self._lock:
            if not self._moments:
                return None
            index = max(0, bisect.bisect_right(self._moments, at_ms) - 1)
            packed = self._frames[self._moments[index]]
        return zlib.decompress(packed)
