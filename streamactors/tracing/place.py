"""Where a record lies, as its spans tell it."""

from __future__ import annotations

from typing import Any, NamedTuple


class Place(NamedTuple):
    """Where a record lies, and who reads or writes it."""

    topic: str
    partition: int | None = None
    offset: int | None = None
    key: Any = None
    tombstone: bool = False
    group: str | None = None
    client: str | None = None
    servers: str = ""
