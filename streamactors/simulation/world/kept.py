"""References to replaced functions that a module keeps in its classes and in defaults of its functions: `def f(sleep=time.sleep)`.

Owner: the patches. Names of a module are replaced as such; these two kinds of places are looked at besides. A reference in a closure or in an
object stays, and reaches the operating system."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

Place = tuple[Any, str, Any]
"""What has the attribute, its name, and its value with the original in it."""


def places(module: ModuleType, originals: set[int]) -> list[Place]:
    """Return the attributes of the module's classes and functions that are, or contain, an original."""
    found: list[Place] = []
    for value in list(vars(module).values()):
        if isinstance(value, FunctionType) and value.__module__ == module.__name__:
            found += _of_function(value, originals)
        elif isinstance(value, type) and value.__module__ == module.__name__:
            for name, member in list(vars(value).items()):
                if id(_bare(member)) in originals:
                    found.append((value, name, member))
                elif isinstance(_bare(member), FunctionType):
                    found += _of_function(_bare(member), originals)
    return found


def _bare(member: Any) -> Any:
    return member.__func__ if isinstance(member, staticmethod | classmethod) else member


def _of_function(function: FunctionType, originals: set[int]) -> Iterator[Place]:
    if any(id(value) in originals for value in function.__defaults__ or ()):
        yield function, "__defaults__", function.__defaults__
    if any(id(value) in originals for value in (function.__kwdefaults__ or {}).values()):
        yield function, "__kwdefaults__", function.__kwdefaults__


def replaced(value: Any, new: Callable[[Any], Any]) -> Any:
    """Return the value of a place with `new(original)` for each part."""
    if isinstance(value, tuple):
        return tuple(map(new, value))
    if isinstance(value, dict):
        return {name: new(part) for name, part in value.items()}
    return staticmethod(new(value.__func__)) if isinstance(value, staticmethod) else new(value)
