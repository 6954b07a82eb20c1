"""Lazy names of a package: each name is imported from its module when first used, so importing the package is cheap.

The names of a package are written once, as the imports that type checkers read:

    if TYPE_CHECKING:
        from streamactors.clock import VirtualClock as VirtualClock

    __getattr__, __dir__ = lazy_names(__name__)

At the first use of a name they are read from the source of the package, which may lie in a zip file."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import ast

_TRIES: Final = 10
"""So often a source is parsed until no other thread disturbs it."""


def parsed(source: str) -> ast.Module:
    """Return the syntax tree of a module's source, also while other threads parse. Raises SyntaxError."""
    import ast

    for _ in range(_TRIES - 1):
        # python/cpython#106905: another thread parses, and a finalizer let it run meanwhile
        with suppress(SystemError):
            return ast.parse(source)
    return ast.parse(source)


@cache
def homes_of(package: str) -> dict[str, str]:
    """Return name -> module of the imports under `if TYPE_CHECKING` of a package."""
    import ast
    import inspect

    try:
        source = inspect.getsource(sys.modules[package])
    except OSError as error:
        raise ImportError(f"{package} is here without its .py files, which name what it offers; ship them") from error
    block = next(node for node in parsed(source).body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: node.module for node in imports for alias in node.names if node.module}


def lazy_names(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package. `__all__` is the names, sorted."""

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(homes_of(package))
        module = None if name.startswith("__") else homes_of(package).get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes_of(package)})

    return load, names
