"""Keys and values of stores: which types cannot change, and copies of those that can.

Kafka Streams keeps bytes, so a function may change what it gets, and no store changes with it. Here a store keeps objects. Two rules give the same
results, with restarts and without:

* A store owns the objects that it keeps: it copies its arguments. A key is copied once, when its entry is made.
* A store's objects stay its own: a reader gets a copy. An object that leaves the store (replaced, removed) needs none.

A function that gets the key of a table's update gets a copy, too: the update also has the bytes of the key, and both must stay equal.

Only what can change is copied; a check of the type of an int or a str costs some 20 ns."""

from __future__ import annotations

import copy
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

IMMUTABLE: Final = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        frozenset,
        Decimal,
        datetime,
        date,
        time,
        timedelta,
        range,
        UUID,
    }
)
"""Types whose values cannot change; the members of a frozenset are hashable, so they are values as well."""


def snapshot(value: Any) -> Any:
    """Return a copy that shares no mutable object with `value`, `value` itself if nothing of it can change. Fast for plain containers, deepcopy
    for the rest."""
    kind = type(value)
    if kind in IMMUTABLE:
        return value
    if kind is dict:
        return {key: item if type(item) in IMMUTABLE else snapshot(item) for key, item in value.items()}
    if kind is list:
        return [item if type(item) in IMMUTABLE else snapshot(item) for item in value]
    if kind is tuple:
        for item in value:
            if type(item) not in IMMUTABLE:
                return tuple([snapshot(item) for item in value])
        return value
    if kind is set or kind is bytearray:
        return value.copy()  # the members of a set are hashable, so they are values
    if isinstance(value, Enum):
        return value
    return copy.deepcopy(value)


def own_row(row: Any) -> Any:
    """Return a record that shares no mutable key or value with `row`, `row` itself if nothing of it can change."""
    key, value = row.key, row.value
    if type(key) in IMMUTABLE and type(value) in IMMUTABLE:
        return row
    return row.replace(key=snapshot(key), value=snapshot(value))


def is_unchanged(copied: Any, value: Any) -> bool:
    """Return whether a copy that `snapshot` made still equals the value. Objects of a class that does not say when they are equal are compared by their
    attributes."""
    if copied is value:
        return True
    kind = type(copied)
    if kind is not type(value):
        return False
    if kind is dict:
        return copied.keys() == value.keys() and all(is_unchanged(item, value[key]) for key, item in copied.items())
    if kind is list or kind is tuple:
        return len(copied) == len(value) and all(map(is_unchanged, copied, value))
    if getattr(kind, "__eq__", None) is object.__eq__:
        return is_unchanged(getattr(copied, "__dict__", {}), getattr(value, "__dict__", {}))
    return bool(copied == value)
