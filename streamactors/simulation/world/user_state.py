"""The state that user code keeps in its modules, once per instance: in a process of its own an instance would have one, and lose it in a crash.

Owner: the world. State is what a module's names, its classes' attributes and its functions' defaults hold: containers, locks, objects of the
user's own classes, and every name that a `global` statement binds. Functions, classes and all else are shared. The values are exchanged
when another instance's task runs, so an object that took one into an attribute or a closure before the run keeps the original.
The instances share the results of a `functools.lru_cache`, which is emptied whenever an instance begins."""

from __future__ import annotations

import enum
import functools
import opcode
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from streamactors.simulation.world.copying import HELD, Copier, is_state
from streamactors.simulation.world.reachable import reachable_modules

_BINDS: Final = frozenset({opcode.opmap["STORE_GLOBAL"], opcode.opmap["DELETE_GLOBAL"]})
_PLAIN: Final = (int, float, str, bytes, tuple, type(None))
_MISSING: Final = object()
_OF_PYTEST: Final = ("@", "__", "pytest")

Place = tuple[Any, str, bool]
"""The owner, the name, and whether the owner is a module's dictionary."""


class _Looked:
    """Where a module has state."""

    __slots__ = ("caches", "module", "places", "size")

    def __init__(self, module: ModuleType, users: frozenset[str]) -> None:
        names = vars(module)
        self.module = module
        self.size = len(names)
        self.places: list[Place] = []
        self.caches: list[Any] = []
        bound: set[str] = set()
        for name, value in list(names.items()):
            if isinstance(value, functools._lru_cache_wrapper):
                self.caches.append(value)
            elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
                self._look_at_function(value, bound)
            elif isinstance(value, type) and value.__module__ == module.__name__:
                self._look_at_class(value, bound)
            elif not name.startswith(_OF_PYTEST) and is_state(value, users):
                self.places.append((names, name, True))
        known = {name for _, name, of_module in self.places if of_module}
        self.places += [(names, name, True) for name in sorted(bound - known)]

    def _look_at_function(self, function: FunctionType, bound: set[str]) -> None:
        bound.update(_bound_in(function.__code__))
        for attribute, held in (
            ("__defaults__", function.__defaults__ or ()),
            ("__kwdefaults__", (function.__kwdefaults__ or {}).values()),
        ):
            if any(isinstance(value, HELD) for value in held):
                self.places.append((function, attribute, False))

    def _look_at_class(self, owner: type, bound: set[str]) -> None:
        if issubclass(owner, enum.Enum):
            return
        for name, value in list(vars(owner).items()):
            function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
            if isinstance(function, FunctionType):
                self._look_at_function(function, bound)
            elif not name.startswith("_abc") and not name.startswith("__") and isinstance(value, (*HELD, *_PLAIN)):
                self.places.append((owner, name, False))


def _bound_in(code: CodeType) -> Iterator[str]:
    """Yield the names that a function's `global` statements may bind."""
    if _BINDS.intersection(code.co_code[::2]):
        yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _bound_in(constant)


_known: dict[str, _Looked] = {}
"""By module."""


class UserState:
    """The state of one run. `enter` makes an instance's state the current one."""

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._caches: list[Any] = []
        self._users: frozenset[str] = frozenset()
        self._original: list[Any] = []
        self._of: dict[str, list[Any]] = {}
        self.now = ""
        """The instance whose state is the current one."""

    def begin(self, roots: Iterable[object]) -> None:
        """Find the state of the modules that the roots reach (functions of the user), and give the test's body its own."""
        modules = reachable_modules(roots)
        self._users = frozenset(modules)
        for name, module in modules.items():
            known = _known.get(name)
            if known is None or known.module is not module or known.size != len(vars(module)):
                known = _known[name] = _Looked(module, self._users)
            self._places += known.places
            self._caches += known.caches
        self._original = self._read()
        self._write(self._begun())

    def enter(self, instance: str) -> None:
        """Let the state be that of an instance; "" is the test's body."""
        if instance == self.now or not self._places:
            return
        self._of[self.now] = self._read()
        values = self._of.get(instance)
        self.now = instance
        self._write(self._begun() if values is None else values)

    def _begun(self) -> list[Any]:
        """Return the state with which a process begins."""
        for cache in self._caches:
            cache.cache_clear()
        copied: list[Any] = Copier(self._users).copied(self._original)
        return copied

    def forget(self, instance: str) -> None:
        """The instance's process has ended: the next one begins with what its modules say."""
        if instance == self.now:
            self.enter("")
        self._of.pop(instance, None)

    def end(self) -> None:
        """Put the originals back."""
        self._write(self._original)
        self._of.clear()

    def _read(self) -> list[Any]:
        return [
            owner.get(name, _MISSING) if of_module else getattr(owner, name, _MISSING)
            for owner, name, of_module in self._places
        ]

    def _write(self, values: list[Any]) -> None:
        for (owner, name, of_module), value in zip(self._places, values, strict=True):
            now = owner.get(name, _MISSING) if of_module else getattr(owner, name, _MISSING)
            if now is value:
                continue
            if of_module and value is _MISSING:
                del owner[name]
            elif of_module:
                owner[name] = value
            elif value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
