"""Write the list at the end of docs/errors.md: a heading for each error class, whose anchor the error itself names (`StreamActorsError.docs`)."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import Final

import streamactors
from docs.described import as_markdown, prose
from streamactors.errors import StreamActorsError

PAGE: Final = Path(__file__).parent / "errors.md"
HERE: Final = "<!-- `make docs` writes what follows from the classes -->\n"


@cache
def classes() -> tuple[type[StreamActorsError], ...]:
    """Return the error classes that users meet, a base before its subclasses."""
    for info in pkgutil.walk_packages(streamactors.__path__, "streamactors."):
        if info.name.rpartition(".")[2] not in {"__main__", "conftest", "kafka_fixtures"} and not _is_aside(info.name):
            importlib.import_module(info.name)
    return tuple(_below(StreamActorsError))


def text() -> str:
    """Return the page: what is written by hand, and the list."""
    before, _, _ = PAGE.read_text(encoding="utf-8").partition(HERE)
    return before + HERE + "\n".join(line for cls in classes() for line in _entry(cls))


def heading(cls: type[StreamActorsError]) -> str:
    """Return the heading of a class; its anchor is that of `StreamActorsError.docs`."""
    return cls.anchor().replace("-", " ").capitalize()


def _entry(cls: type[StreamActorsError]) -> list[str]:
    bases = " and ".join(f"`{base.__name__}`" for base in cls.__bases__)
    package = ".".join(cls.__module__.split(".")[:2]) if _is_public(cls) else cls.__module__
    lines = [
        "",
        f"### {heading(cls)}",
        "",
        f"`{package.removesuffix('.errors')}.{cls.__name__}`, a subclass of {bases}.",
        "",
    ]
    return lines + as_markdown(prose(cls))[:-1]


def _is_public(cls: type) -> bool:
    package = importlib.import_module(".".join(cls.__module__.split(".")[:2]).removesuffix(".errors"))
    return hasattr(package, cls.__name__)


def _below(cls: type[StreamActorsError]) -> list[type[StreamActorsError]]:
    found = [cls] if cls.is_documented() else []
    for sub in sorted(cls.__subclasses__(), key=lambda each: each.__name__):
        if sub.__module__.startswith("streamactors.") and not sub.__name__.startswith("_"):
            found += [each for each in _below(sub) if each not in found]
    return found


def _is_aside(module: str) -> bool:
    """True for modules that start programs or need packages of their own; users meet none of their errors."""
    return module.startswith(("streamactors.cli", "streamactors.demo", "streamactors.testing.pytest"))
