"""When the newest batches of a partition were appended, for readers that ask. A topic with CreateTime keeps this time nowhere.

Owner: HostedPartition. It notes appends from the first question on, until a minute after the last one."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import Final

MOST_NOTED: Final = 1_000
"""Batches of the same ms are noted once, so these are at least the appends of the last second."""
WANTED_MS: Final = 60_000


class AppendTimes:
    """The newest (base offset, wall clock ms) of a leader, in the order of offsets."""

    __slots__ = ("_asked_ms", "_noted")

    def __init__(self) -> None:
        self._noted: deque[tuple[int, int]] = deque(maxlen=MOST_NOTED)
        self._asked_ms = 0

    def note(self, base_offset: int, now_ms: int) -> bool:
        """Note the append of a batch. Returns False if the last question is more than a minute old."""
        noted = self._noted
        if noted and base_offset <= noted[-1][0]:  # another leader has truncated the log meanwhile
            noted.clear()
        if not noted or now_ms != noted[-1][1]:
            noted.append((base_offset, now_ms))
        return now_ms - self._asked_ms < WANTED_MS

    def of(self, offset: int, now_ms: int) -> int | None:
        """Return when the record was appended, in ms since 1970; None if that is not known (any more)."""
        self._asked_ms = now_ms
        found = bisect_right(self._noted, offset, key=lambda each: each[0])
        return self._noted[found - 1][1] if found else None
