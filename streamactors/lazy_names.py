"""Lazy names of a package: each name is imported from its module when first used, so importing the package is cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any


def homes_of(names_by_module: Mapping[str, Iterable[str]]) -> dict[str, str]:
    """Return name -> module, from module -> names."""
    return {name: module for module, names in names_by_module.items() for name in names}


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of `package`; `homes` maps each public name to the full name of its module."""

    def load(name: str) -> Any:
        module = homes.get(name)
        if module is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(module), name)
        setattr(sys.modules[package], name, value)
        return value

    return load
