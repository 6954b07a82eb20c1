"""What is replaced while a world runs, and is put back after it.

Owner: the world. A replaced function is replaced under every name that a loaded module gives it, because `from time import monotonic` copies
it. Found once per module: a later world looks only at new modules. Module-level locks and counters of the product and of the threads of the
standard library get fresh ones, so that a run begins as in a new process. `kept.py` finds references in classes and defaults.

State that a run shares with what ran before in the process, and that does not change what it does: what was logged before (`log_limit`), parsed
and compiled caches, imported modules. Not reached: a function that a closure or an object keeps, and what C code calls without Python. `refusals`
refuses a socket or a process there."""

from __future__ import annotations

import datetime
import itertools
import sys
from collections.abc import Callable
from functools import partial
from importlib.machinery import ExtensionFileLoader, SourceFileLoader
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet, WeakValueDictionary

from streamactors.living import Living
from streamactors.simulation.world.here import enter
from streamactors.simulation.world.kept import Place, places, replaced
from streamactors.simulation.world.lines import is_users
from streamactors.simulation.world.locks import Lock, RLock
from streamactors.simulation.world.threads import LOCK_TYPES

_NOT_HERE: Final = (
    "streamactors.simulation",
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
_INSIDE: Final = tuple(f"{name}." for name in _NOT_HERE)
_FRESH: Final = ("streamactors.", "concurrent.futures.thread")
"""Modules whose locks are replaced. Others hold theirs for moments in which no task gives way."""
_COUNTED: Final = ("streamactors.", "threading", "asyncio.")
"""Modules whose counters begin again."""
_LOADERS: Final = (SourceFileLoader, ExtensionFileLoader)
_DATETIME: Final = {"datetime": datetime.datetime, "date": datetime.date}
_COUNT: Final = itertools.count
_TABLES: Final = (WeakKeyDictionary, WeakValueDictionary, WeakSet, Living)
"""Tables of what is alive. A run has its own: what it leaves behind is not the process's."""
_METHOD: Final = type(itertools.count().__next__)

Found = list[tuple[dict[str, Any], str, Any]]


class _Looked:
    """What a module holds that a world replaces: names, locks and counters, and references in classes and defaults."""

    __slots__ = ("fresh", "kept", "module", "names", "size")

    def __init__(self, name: str, module: ModuleType, originals: set[int]) -> None:
        self.module = module
        self.size = len(vars(module))
        self.names: Found = []
        self.fresh: Found = []
        self.kept: list[Place] = []
        if _keeps(name):
            return
        locks, counters = name.startswith(_FRESH), name.startswith(_COUNTED)
        names = vars(module)
        for key, value in list(names.items()):
            if id(value) in originals:
                self.names.append((names, key, value))
            elif (locks and type(value) in (*LOCK_TYPES, *_TABLES)) or (counters and _is_counting(value)):
                self.fresh.append((names, key, value))
        file = getattr(module, "__file__", None)
        if file is not None and (name.startswith("streamactors.") or is_users(file)):
            self.kept = places(module, originals)


_known: dict[str, _Looked] = {}
"""By module."""


def _keeps(name: str) -> bool:
    return name in _NOT_HERE or name.startswith(_INSIDE)


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

    def begin(self) -> None:
        """Replace."""
        originals = set(self._by_id)
        for name, module in list(sys.modules.items()):
            if not isinstance(module, ModuleType):
                continue
            known = _known.get(name)
            if known is None or known.module is not module or known.size != len(vars(module)):
                known = _known[name] = _Looked(name, module, originals)
            for names, key, value in known.names:
                if names.get(key) is value:
                    self._set(names, key, self._new(value))
            self._freshen(known)
        loading = [(loader, "exec_module", self._loading(loader.exec_module)) for loader in _LOADERS]
        for owner, attribute, new in [*self._attributes, *loading]:
            if attribute in vars(owner):
                old = vars(owner)[attribute]
                self._undo.append(lambda o=owner, a=attribute, old=old: setattr(o, a, old))  # type: ignore[misc]
            else:
                self._undo.append(lambda o=owner, a=attribute: delattr(o, a))  # type: ignore[misc]
            setattr(owner, attribute, new)

    def _new(self, value: Any) -> Any:
        known = self._by_id.get(id(value))
        return value if known is None else known[1]

    def _freshen(self, looked: _Looked) -> None:
        for names, key, value in looked.fresh:
            if names.get(key) is value:
                self._set(names, key, self._fresh(value))
        for owner, attribute, value in looked.kept:
            self._undo.append(partial(setattr, owner, attribute, value))
            setattr(owner, attribute, replaced(value, self._new))

    def _loading(self, execute: Callable[[Any, ModuleType], None]) -> Callable[[Any, ModuleType], None]:
        """Return how a task imports a module. Its own code runs outside the world: what it makes outlives the run.

        Afterwards the module is as those that were there when the run began."""

        def load(loader: Any, module: ModuleType) -> None:
            world = enter(None)
            vars(datetime).update(_DATETIME)  # extension modules look at the size of the class
            try:
                execute(loader, module)
            finally:
                vars(datetime).update({name: self._by_id[id(real)][1] for name, real in _DATETIME.items()})
                enter(world)
                self._loaded.append(module)
            looked = _Looked(module.__name__, module, set(self._by_id))
            for names, key, value in looked.names:
                names[key] = self._new(value)
            self._freshen(looked)

        return load

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
        return Lock() if type(value) is LOCK_TYPES[0] else RLock()

    def end(self) -> None:
        """Put everything back, also in modules that were imported meanwhile."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        for module in self._loaded:
            self._restore(module)

    def _restore(self, module: ModuleType) -> None:
        """Give a module that was imported in the run the originals of what it has copied."""
        _known.pop(module.__name__, None)
        names = vars(module)
        if _keeps(module.__name__):
            return
        for key, value in list(names.items()):
            names[key] = self._original(value)
        for owner, attribute, value in places(module, set(self._originals)):
            setattr(owner, attribute, replaced(value, self._original))

    def _original(self, value: Any) -> Any:
        return self._originals.get(id(value), value)
