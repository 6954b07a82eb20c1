"""What readers from outside ask of a store, and what they get."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

KINDS: Final = ("get", "range", "prefix", "windows")


class StoreEntry(NamedTuple):
    """One entry of a store. `timestamp`: None where the store keeps none. `start` and `end`: the window, None without windows."""

    key: Any
    value: Any
    timestamp: int | None = None
    start: int | None = None
    end: int | None = None


class StoreRequest(NamedTuple):
    """What is asked of a store. get: `key`; range: `key` to `last`, both included, None for no bound; prefix: `key`; windows: those of `key` that
    begin from `first_ms` to `last_ms`."""

    kind: str
    key: Any = None
    last: Any = None
    first_ms: int | None = None
    last_ms: int | None = None
