"""What the models of windows give out."""

from __future__ import annotations

from typing import Any, NamedTuple


class Update(NamedTuple):
    key: str
    start: int | None
    end: int | None
    new: Any
    old: Any
    timestamp: int


class Full(Exception):
    """The buffer is over its bound: records, bytes."""
