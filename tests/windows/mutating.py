"""Rows, and functions that change everything they get: what the tests of stored keys and values share.

Keys are strings, dicts and tuples of lists."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from streamactors.windows.record import WindowedRecord

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


def spoil(value: Any) -> None:
    """Change everything in a value that can be changed."""
    if isinstance(value, Record | WindowedRecord):
        spoil(value.key)
        spoil(value.value)
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value["spoilt"] = True
    elif isinstance(value, list | tuple):
        for each in value:
            spoil(each)
        if isinstance(value, list):
            value.append("spoilt")


def calm(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` on copies: it changes nothing."""
    return lambda *given: fn(*copy.deepcopy(given))


def spoiling(fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn`, which spoils its arguments when it has its result."""

    def call(*given: Any) -> Any:
        result = fn(*copy.deepcopy(given))
        for each in given:
            spoil(each)
        return result

    return call


def gather(seen: list[Any], value: Any) -> list[Any]:
    """An aggregate that grows in place."""
    seen.append(value)
    return seen


def both(left: Any, right: Any) -> dict[str, Any]:
    return {"left": left, "right": right}


def plus(left: list[Any], right: list[Any]) -> list[Any]:
    return left + right


CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
HELD = Suppressed.until_time_limit(4, BufferConfig.max_records(2).emit_early_when_full())
TUMBLING = TimeWindows.of_size(6).with_grace(3)
HOPPING = TimeWindows.of_size(6).advance_by(2).with_grace(3)
SLIDING = SlidingWindows.of_difference(5).with_grace(3)
SESSIONS = SessionWindows.with_gap(3).with_grace(3)


KEYS: dict[str, Any] = {"k0": "k0", "k1": {"id": [1]}, "k2": ("k2", ["part"]), "k9": {"id": [9]}}
ORDER = ("k0", "k1", "k0", "k2", "k0", "k1", "k0", "k0", "k2", "k1", "k0", "k1")
ROWS: list[tuple[str, str, Any, int]] = [
    ("ab"[(n // 2 + n) % 2], key, {"in": list(range(n % 5))}, n * 2 - 3 * (n % 4 == 3))
    for n, key in enumerate(ORDER * 3)
] + [("b", "k0", None, 70), ("a", "k0", {"in": [1]}, 71), ("a", "k1", None, 72), ("a", "k9", {"in": []}, 200)]


def row(number: int) -> Record:
    topic, key, value, time = ROWS[number]
    return Record(copy.deepcopy(KEYS[key]), copy.deepcopy(value), time, RecordContext(topic, 0, number))
