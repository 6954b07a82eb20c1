"""One record, as read and as given to a builder."""

from __future__ import annotations

from typing import NamedTuple

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record read from a batch. `timestamp` is epoch milliseconds, -1 if there is none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class NewRecord(NamedTuple):
    """A record to be written. `timestamp` is epoch milliseconds, -1 for none."""

    key: bytes | None
    value: bytes | None
    timestamp: int = -1
    headers: Headers = ()
