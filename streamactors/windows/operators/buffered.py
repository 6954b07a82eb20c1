"""The size of a suppress buffer in entries and bytes, counted as Kafka Streams counts it."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamactors.windows.record import RecordContext
from streamactors.windows.state.serdes import Serdes


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
