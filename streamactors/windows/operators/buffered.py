"""The size of a suppress buffer in entries and bytes, counted as Kafka Streams counts it."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from streamactors.windows.record import RecordContext
from streamactors.windows.state.serdes import Serdes


class OpenWindows(NamedTuple):
    """The windows of an aggregation that a later row may still change: of windows of time the number of their starts, of sessions and sliding windows that of
    all keys. `next_close_ms`: the stream time at which the first of them closes."""

    open: int
    next_close_ms: int | None


class Buffering(Protocol):
    """An operator that holds results back."""

    @property
    def holds(self) -> int:
        """Number of entries that are held back. O(1)."""

    def buffered(self) -> Buffered:
        """Return the entries and bytes that are held back."""


class Buffered(NamedTuple):
    """Entries and bytes that are held back."""

    records: int
    bytes: int


def entry_bytes(serdes: Serdes, key_size: int, prior: Any, old: Any, new: Any, context: RecordContext | None) -> int:
    """Return the bytes of one entry: buffer time, key, values (`old` only if it differs from `prior`), record context.

    `key_size` is that of the serialised key with its window. Timestamp and offset take 8 bytes each, the partition 4, and
    each character of the topic's name and of the headers' names one."""
    size = 8 + key_size + serdes.size(prior) + serdes.size(new) + 20
    if old is not None and old is not prior and (prior is None or serdes.value(old) != serdes.value(prior)):
        size += serdes.size(old)
    if context is not None:
        size += len(context.topic)
        for name, value in context.headers:
            size += len(name) + (0 if value is None else len(value))
    return size
