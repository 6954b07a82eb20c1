"""What is replaced while a world runs, and is put back after it.

Owner: the world. A replaced function is replaced under every name that a loaded module gives it, because `from time import monotonic` copies
it. Found once per module: a later world looks only at new modules. Module-level locks and counters of the product and of the threads of the
standard library get fresh ones, so that a run begins as in a new process.

State that a run shares with what ran before in the process, and that does not change what it does: what was logged before (`log_limit`), parsed
and compiled caches, the tables of living objects, imported modules. Not reached: a function kept in a default argument, a class or a closure,
and what C code calls without Python; a real sleep or socket there is refused by `refusals`."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from streamactors.living import Living
from streamactors.simulation.world.here import enter
from streamactors.simulation.world.locks import Lock, RLock
from streamactors.simulation.world.threads import LOCK_TYPES

_NOT_HERE: Final = (
    "streamactors.simulation.",
    "importlib",
    "_thread",
    "greenlet",
    "_pytest",
    "pluggy",
    "execnet",
    "xdist",
    "hypothesis",
)
"""Modules that keep the real functions: the world itself, the import system, and what runs the tests."""
_FRESH: Final = ("streamactors.", "concurrent.futures.thread")
"""Modules whose locks are replaced. Others hold theirs for moments in which no task gives way."""
_COUNTED: Final = ("streamactors.", "threading", "asyncio.")
"""Modules whose counters begin again."""
_exec_module: Final[Any] = SourceFileLoader.exec_module
_COUNT: Final = itertools.count
_TABLES: Final = (WeakKeyDictionary, WeakValueDictionary, WeakSet, Living)
"""Tables of what is alive. A run has its own: what it leaves behind is not the process's."""
_METHOD: Final = type(itertools.count().__next__)

Found = list[tuple[dict[str, Any], str, Any]]
_known: dict[str, tuple[ModuleType, int, Found, Found]] = {}
"""By module: what it held when it was looked at, its names of replaced things, and its locks and counters."""


def _look(name: str, module: ModuleType, originals: set[int]) -> tuple[ModuleType, int, Found, Found]:
    names = vars(module)
    size = len(names)
    found: Found = []
    fresh: Found = []
    if not name.startswith(_NOT_HERE):
        locks, counters = name.startswith(_FRESH), name.startswith(_COUNTED)
        for key, value in list(names.items()):
            if id(value) in originals:
                found.append((names, key, value))
            elif (locks and type(value) in (*LOCK_TYPES, *_TABLES)) or (counters and _is_counting(value)):
                fresh.append((names, key, value))
    return module, size, found, fresh


def _is_counting(value: object) -> bool:
    return type(value) is _COUNT or (type(value) is _METHOD and type(getattr(value, "__self__", None)) is _COUNT)


class Patches:
    """Everything that one world has replaced."""

    def __init__(self, replacements: list[tuple[object, object]], attributes: list[tuple[object, str, object]]) -> None:
        self._by_id = {id(original): (original, new) for original, new in replacements}
        self._originals = {id(new): original for original, new in replacements}
        self._attributes = attributes
        self._undo: list[Callable[[], object]] = []
        self._loaded: list[ModuleType] = []
        self._tables: dict[int, object] = {}  # by the table that they stand for, which several modules may have
        self.locks: list[Lock] = []
        """The locks that stand for module-level ones; the instances of a pipeline share them."""

    def begin(self) -> None:
        """Replace."""
        originals = set(self._by_id)
        for name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType):
                continue
            known = _known.get(name)
            if known is None or known[0] is not module or known[1] != len(vars(module)):
                known = _known[name] = _look(name, module, originals)
            for names, key, value in known[2]:
                if names.get(key) is value:
                    self._set(names, key, self._by_id[id(value)][1])
            self._freshen(known[3])
        load: Any = lambda loader, module: self._load(loader, module)  # noqa: E731 - a function becomes a method of the class
        for owner, attribute, new in [*self._attributes, (SourceFileLoader, "exec_module", load)]:
            if attribute in vars(owner):
                old = vars(owner)[attribute]
                self._undo.append(lambda o=owner, a=attribute, old=old: setattr(o, a, old))  # type: ignore[misc]
            else:
                self._undo.append(lambda o=owner, a=attribute: delattr(o, a))  # type: ignore[misc]
            setattr(owner, attribute, new)

    def _freshen(self, found: Found) -> None:
        for names, key, value in found:
            if names.get(key) is value:
                self._set(names, key, self._fresh(value))

    def _load(self, loader: Any, module: ModuleType) -> None:
        """A module is imported by a task. Its own code runs outside the world: what it makes outlives the run.

        Names that it copies are replaced already, and its locks and counters become fresh, as they are in later runs."""
        world = enter(None)
        try:
            _exec_module(loader, module)
        finally:
            enter(world)
            self._loaded.append(module)
        self._freshen(_look(module.__name__, module, set(self._by_id))[3])

    def _set(self, names: dict[str, Any], key: str, new: object) -> None:
        self._undo.append(lambda old=names[key]: names.__setitem__(key, old))  # type: ignore[misc]
        names[key] = new

    def _fresh(self, value: object) -> object:
        if type(value) is _COUNT:
            return itertools.count(1)
        if type(value) is _METHOD:
            return itertools.count(1).__next__
        if type(value) in _TABLES:
            return self._tables.setdefault(id(value), type(value)())
        lock = Lock() if type(value) is LOCK_TYPES[0] else RLock()
        self.locks.append(lock)
        return lock

    def end(self) -> None:
        """Put everything back, also in modules that were imported meanwhile."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        for module in self._loaded:
            _known.pop(module.__name__, None)
            names = vars(module)
            for key, value in list(names.items()):
                if id(value) in self._originals and not module.__name__.startswith(_NOT_HERE[0]):
                    names[key] = self._originals[id(value)]
