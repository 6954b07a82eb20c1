"""Copies of the state of user code, so that each instance has its own.

Owner: the user's state. Containers and objects of the user's classes are copied with what they hold, a lock becomes a free one, and
everything else is shared: functions, classes, clients, settings."""

from __future__ import annotations

import enum
import itertools
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from streamactors.simulation.world.locks import Lock, RLock
from streamactors.simulation.world.threads import LOCK_TYPES

HELD: Final = (dict, list, set, deque, bytearray, itertools.count, *LOCK_TYPES)
"""What holds state, whoever made it."""


def is_state(value: object, users: frozenset[str]) -> bool:
    """Return whether a value may change in place: a container, a lock, or an object of a class of the user's modules."""
    kind = type(value)
    if isinstance(value, HELD):
        return True
    if kind is tuple:
        return any(is_state(each, users) for each in value)  # type: ignore[attr-defined]
    return _is_users(value, users)


def _is_users(value: object, users: frozenset[str]) -> bool:
    return type(value).__module__ in users and not isinstance(value, type | enum.Enum)


class Copier:
    """Copies values that may share parts; a part that two of them have is copied once."""

    def __init__(self, users: frozenset[str]) -> None:
        self._users = users
        self._made: dict[int, Any] = {}

    def copied(self, value: Any) -> Any:
        """Return the copy of a value, or the value itself where it holds no state."""
        known = self._made.get(id(value))
        if known is not None:
            return known
        kind = type(value)
        if isinstance(value, dict):
            return self._filled(value, lambda made: dict.update(made, self._pairs(value)))
        if isinstance(value, list | deque):
            return self._filled(value, lambda made: made.extend([self.copied(each) for each in value]))
        if isinstance(value, set):
            return self._filled(value, lambda made: set.update(made, [self.copied(each) for each in value]))
        if kind is tuple:
            parts = tuple(self.copied(each) for each in value)
            return value if all(a is b for a, b in zip(parts, value, strict=True)) else self._keep(value, parts)
        if kind is bytearray:
            return self._keep(value, bytearray(value))
        if kind is itertools.count:
            return self._keep(value, itertools.count(*map(int, repr(value)[6:-1].split(", "))))
        if kind in LOCK_TYPES:
            return self._keep(value, Lock() if kind is LOCK_TYPES[0] else RLock())
        return self._filled(value, lambda made: None) if _is_users(value, self._users) else value

    def _pairs(self, value: dict[Any, Any]) -> list[tuple[Any, Any]]:
        return [(self.copied(key), self.copied(each)) for key, each in value.items()]

    def _keep(self, value: Any, made: Any) -> Any:
        self._made[id(value)] = made
        return made

    def _filled(self, value: Any, fill: Callable[[Any], object]) -> Any:
        """Return a new object of the class with the same attributes, filled after it is known: what it holds may hold it."""
        try:
            made = self._keep(value, _empty(value))
        except TypeError:
            return value  # its class makes no empty ones
        fill(made)
        for name, each in getattr(value, "__dict__", {}).items():
            made.__dict__[name] = self.copied(each)
        for name in _slots(type(value)):
            each = getattr(value, name, self)
            if each is not self:
                object.__setattr__(made, name, self.copied(each))
        return made


def _empty(value: Any) -> Any:
    kind: Any = type(value)
    if isinstance(value, deque):
        return kind(maxlen=value.maxlen) if kind is deque else kind.__new__(kind)
    made = kind.__new__(kind)
    factory = getattr(value, "default_factory", None)
    if factory is not None and isinstance(value, dict):
        made.default_factory = factory
    return made


def _slots(kind: type) -> list[str]:
    found: list[str] = []
    for base in kind.__mro__:
        slots = vars(base).get("__slots__", ())
        found += (slots,) if isinstance(slots, str) else slots
    return [name for name in found if name not in ("__dict__", "__weakref__")]
