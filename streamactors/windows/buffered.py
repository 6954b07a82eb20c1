"""What a suppress buffer holds, in entries and bytes, as Kafka Streams counts them."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamactors.windows.codec import Serdes
from streamactors.windows.record import RecordContext


class Buffered(NamedTuple):
    """Entries and bytes held back."""

    records: int
    bytes: int


def entry_bytes(serdes: Serdes, key_size: int, prior: Any, old: Any, new: Any, context: RecordContext | None) -> int:
    """Bytes of one entry: buffer time, key, the values (old only where it differs from prior) and the record context.

    `key_size` is that of the serialised key with its window. Timestamp and offset take 8 bytes each, the partition 4,
    the topic's name and the headers' names one per character."""
    size = 8 + key_size + serdes.size(prior) + serdes.size(new) + 20
    if old is not None and old is not prior and (prior is None or serdes.value(old) != serdes.value(prior)):
        size += serdes.size(old)
    if context is not None:
        size += len(context.topic)
        for name, value in context.headers:
            size += len(name) + (0 if value is None else len(value))
    return size
