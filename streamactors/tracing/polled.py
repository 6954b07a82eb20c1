"""The contexts of sampled records that were polled and not pushed yet, by the assignment that read them.

The consumer's thread adds them in the order of offsets, the source's island takes them in that order. An assignment that was lost leaves some behind:
the oldest assignments are forgotten when there are too many contexts."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from opentelemetry.trace import SpanContext

MOST: Final = 50_000
"""Contexts that are kept at most; records beyond are not traced."""


def _place_of(records: list[Any], offset: int, first: int) -> int:
    """Return the number of the first record at or after an offset, which is not after the last one. Most chunks have no gaps in their offsets."""
    at = offset - first
    if 0 <= at < len(records) and records[at].offset() == offset:
        return at
    return bisect_left(records, offset, key=lambda record: record.offset())


class PolledContexts:
    """Thread-safe. `count` may be read without a lock."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._of: dict[tuple[Any, int], deque[tuple[int, SpanContext | None]]] = {}
        self.count = 0

    def add(self, partition: Any, epoch: int, found: list[tuple[int, SpanContext | None]]) -> None:
        """Add (offset, context) of sampled records of an assignment, in the order of offsets."""
        with self._lock:
            known = self._of.setdefault((partition, epoch), deque())
            if known and found[0][0] <= known[-1][0]:  # the consumer has moved back
                self.count -= len(known)
                known.clear()
            others = (
                [key for key in self._of if key != (partition, epoch)] if self.count + len(found) > self._most else []
            )
            for key in others:
                self.count -= len(self._of.pop(key))
                if self.count + len(found) <= self._most:
                    break
            found = found[: max(0, self._most - self.count)]
            known.extend(found)
            self.count += len(found)

    def first_of(self, partition: Any, epoch: int, records: list[Any]) -> tuple[int, SpanContext | None] | None:
        """Return the number of the first sampled one of these records, and its context; forget the offsets before it."""
        with self._lock:
            known = self._of.get((partition, epoch))
            if known is None:
                return None
            first, last = records[0].offset(), records[-1].offset()
            while known and known[0][0] < first:
                known.popleft()
                self.count -= 1
            if not known:
                del self._of[partition, epoch]
                return None
            offset, context = known[0]
            if offset > last:
                return None
            return _place_of(records, offset, first), context

    def taken(self, partition: Any, epoch: int, records: list[Any]) -> list[tuple[Any, SpanContext | None]]:
        """These records are pushed now: return the sampled ones of them with their contexts, and forget them."""
        with self._lock:
            known = self._of.get((partition, epoch))
            if known is None or not records:
                return []
            first, last = records[0].offset(), records[-1].offset()
            found = []
            while known and known[0][0] <= last:
                offset, context = known.popleft()
                self.count -= 1
                at = _place_of(records, offset, first)
                if records[at].offset() == offset:
                    found.append((records[at], context))
            if not known:
                del self._of[partition, epoch]
            return found
