"""The operators as the source has them: page, signature, contract and example. The pages, the pictures and the tests read them here.

A docstring ends with the example: inputs as marbles, then Python code whose last line is an expression.

    Example:
        a -1-2-3|
        a.map(lambda x: x * 10)

pictures.py runs it and draws the inputs and the result. An example that begins with an import is a program, and prints."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Final

import streamactors.dsl

KINDS: Final = {"operators": "Operators", "sources": "Sources", "sinks": "Sinks"}
"""Packages of mix-ins, and the titles of their pages."""
AROUND: Final = {
    "context.operators": "Operators on elements with a context",
    "context.with_context": "Sources and flows with a context",
    "dynamic.hubs": "Hubs",
    "dynamic.pub_sub": "Publish and subscribe",
    "dynamic.kill_switches": "Kill switches",
    "dynamic.restarts": "Restarts with back-off",
}
"""Modules beside the mix-ins, and the titles of their pages."""

_INPUT = re.compile(r"[abc] (\S+)")


@dataclass(frozen=True)
class Example:
    """`inputs`: the marbles of the sources a, b and c. `code`: an expression after any other lines, or a program that prints."""

    inputs: tuple[str, ...]
    code: str

    @property
    def is_program(self) -> bool:
        """True if the code imports what it uses, and prints its result."""
        return self.code.startswith(("import ", "from "))


@dataclass(frozen=True)
class Operator:
    """A public method of a mix-in, or of a class of AROUND. `name`: as its page calls it. `node`: its syntax tree."""

    name: str
    owner: type
    function: FunctionType
    node: ast.FunctionDef

    @property
    def contract(self) -> str:
        """The docstring without the example."""
        return _parts(self.function)[0]

    @property
    def example(self) -> Example | None:
        """The example of the docstring; None if there is none."""
        text = _parts(self.function)[1]
        if not text:
            return None
        lines = text.splitlines()
        inputs = []
        while lines and (marbles := _INPUT.fullmatch(lines[0])):
            inputs.append(marbles[1])
            del lines[0]
        return Example(tuple(inputs), "\n".join(lines))


@dataclass(frozen=True)
class Page:
    """A page of docs/operators/: the operators of one module."""

    kind: str
    name: str
    title: str
    module: ModuleType

    @property
    def operators(self) -> list[Operator]:
        """The operators of the page, in the order written. Pages of several classes name the class, too."""
        return operators(self.module, qualified=self.kind not in KINDS)


def pages() -> list[Page]:
    """Return every page of operators."""
    return [*_pages()]


def examples() -> dict[str, dict[str, Example]]:
    """Return the example of each operator that has one, by page and name."""
    return {
        page.name: {each.name: example for each in page.operators if (example := each.example) is not None}
        for page in pages()
    }


def operators(module: ModuleType, qualified: bool = False) -> list[Operator]:
    """Return the public methods of a module's classes that have a docstring, in the order written."""
    tree = ast.parse(inspect.getsource(module))
    found: dict[str, Operator] = {}
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        owner = getattr(module, cls.name)
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                member = inspect.getattr_static(owner, node.name)
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and function.__doc__:
                    name = f"{cls.name}.{node.name}" if qualified else node.name
                    found[name] = Operator(name, owner, function, node)
    return list(found.values())


def _pages() -> Iterator[Page]:
    for kind, title in KINDS.items():
        for info in pkgutil.iter_modules([str(Path(streamactors.dsl.__file__).parent / kind)]):
            if info.name != "base" and not info.name.startswith("all_"):
                module = importlib.import_module(f"streamactors.dsl.{kind}.{info.name}")
                yield Page(kind, f"{kind}-{info.name}", f"{title}: {info.name.replace('_', ' ')}", module)
    for name, title in AROUND.items():
        page = name.removeprefix("dynamic.").replace(".", "-").replace("_", "-")
        yield Page("around", page, title, importlib.import_module(f"streamactors.dsl.{name}"))


def _parts(function: FunctionType) -> tuple[str, str]:
    """Return the docstring before its example, and the example."""
    contract, _, example = inspect.cleandoc(function.__doc__ or "").partition("\n\nExample:\n")
    return contract, inspect.cleandoc("\n" + example) if example else ""
