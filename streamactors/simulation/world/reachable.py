"""The user's modules that a function can reach: only their state matters to a run.

Owner: the state of user code. A module reaches what its names hold (modules, functions, classes, objects of classes) and what its functions import."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from streamactors.simulation.world.lines import is_users

_DEEPEST: Final = 4
"""Closures in closures are followed so far."""


def reachable_modules(roots: Iterable[object]) -> dict[str, ModuleType]:
    """Return the user's loaded modules that the roots reach, by name."""
    found: dict[str, ModuleType] = {}
    waiting = [name for root in roots for name in _named_by(root, _DEEPEST)]
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in found or not isinstance(module, ModuleType):
            continue
        if not is_users(getattr(module, "__file__", None) or "<frozen"):
            continue
        found[name] = module
        waiting += _reached_by(module)
    return found


def _reached_by(module: ModuleType) -> Iterator[str]:
    package = module.__name__.rpartition(".")[0]
    for value in list(vars(module).values()):
        if isinstance(value, ModuleType):
            yield value.__name__
            continue
        yield getattr(value, "__module__", None) or ""
        for code in _codes_of(value):
            for name in code.co_names:
                yield name
                yield f"{package}.{name}"


def _codes_of(value: object) -> Iterator[CodeType]:
    functions = vars(value).values() if isinstance(value, type) else (value,)
    for each in functions:
        function = each.__func__ if isinstance(each, staticmethod | classmethod) else each
        if isinstance(function, FunctionType):
            yield from _nested(function.__code__)


def _nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _nested(constant)


def _named_by(value: Any, depth: int) -> Iterator[str]:
    """Yield the names of the modules that a function and its closure are of."""
    if depth == 0:
        return
    if isinstance(value, functools.partial):
        for part in (value.func, *value.args, *value.keywords.values()):
            yield from _named_by(part, depth - 1)
        return
    if isinstance(value, MethodType):
        yield from _named_by(value.__func__, depth)
        value = value.__self__
    yield getattr(value, "__module__", None) or ""
    yield type(value).__module__
    if isinstance(value, FunctionType):
        for code in _nested(value.__code__):
            yield from code.co_names
        for cell in value.__closure__ or ():
            try:
                yield from _named_by(cell.cell_contents, depth - 1)
            except ValueError:
                continue  # an empty cell
        yield from _named_by(getattr(value, "__wrapped__", None), depth - 1)
