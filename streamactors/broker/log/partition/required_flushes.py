"""The range of offsets whose flush is required by flush.messages and still pending.

Owner: PartitionLog, under its lock. Appends extend the range; a flush or a truncation ends it.
"""

from __future__ import annotations


class RequiredFlushes:
    """At most one range of offsets waits for a flush."""

    __slots__ = ("_owed_from", "_owed_to", "counted_from")

    def __init__(self, end_offset: int) -> None:
        self.counted_from = end_offset
        """Records from this offset on count towards flush.messages."""
        self._owed_from = 0  # first offset with a pending flush; no flush is pending unless it is below _owed_to
        self._owed_to = 0

    def require(self, base_offset: int, end_offset: int) -> None:
        """Require a flush of these offsets before their append is answered."""
        self.counted_from = end_offset
        if self._owed_from >= self._owed_to:
            self._owed_from = base_offset
        self._owed_to = end_offset

    def limit(self, end_offset: int) -> int:
        """Return the upper bound of the high watermark: the first offset with a pending flush, else the log end."""
        return self._owed_from if self._owed_from < self._owed_to else end_offset

    def done(self, up_to: int) -> None:
        """Everything below the offset is on the disk."""
        self._owed_from = max(self._owed_from, up_to)
        self.counted_from = max(self.counted_from, up_to)

    def truncate_to(self, end_offset: int) -> None:
        """The log was truncated to the offset."""
        self.counted_from = min(self.counted_from, end_offset)
        self._owed_to = min(self._owed_to, end_offset)
