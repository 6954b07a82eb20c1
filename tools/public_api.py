"""List the public API: every public name with its parameters and their defaults, and every public method of public classes.

`Name(…): Base` has the methods of Base, too; `a.Name is b.Name` is one class in two packages.

python tools/public_api.py            write tests/public_api.txt
python tools/public_api.py --check    exit with 1 if the list is out of date"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "public_api.txt"
PACKAGES = ("", ".actors", ".broker", ".kafka", ".metrics", ".spark", ".testing", ".tracing", ".windows")


def main(arguments: list[str]) -> int:
    """Write the list, or check it."""
    sys.path.insert(0, str(ROOT))
    text = "\n".join(listing()) + "\n"
    if "--check" not in arguments:
        LIST.write_text(text)
        return 0
    found = text.splitlines()
    listed = LIST.read_text().splitlines()
    if listed == found:
        return 0
    print("tests/public_api.txt is not the public API, in which old lines must not go unnoticed; to accept: make docs")
    print("\n".join(difflib.unified_diff(listed, found, "listed", "found", n=0, lineterm="")))
    return 1


def listing() -> Iterator[str]:
    """Yield the lines. A class that two packages offer, and a member that a listed base offers, have their lines there once."""
    listed: dict[type, str] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        for name in _names(module):
            value = getattr(module, name)
            if inspect.isclass(value):
                listed.setdefault(value, f"streamactors{package}.{name}")
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        for name in _names(module):
            yield from _lines(f"streamactors{package}.{name}", getattr(module, name), listed)


def _names(module: ModuleType) -> list[str]:
    return sorted(name for name in getattr(module, "__all__", dir(module)) if not name.startswith("_"))


def _lines(name: str, value: Any, listed: Mapping[type, str]) -> Iterator[str]:
    if inspect.isclass(value):
        if listed[value] != name:
            yield f"{name} is {listed[value]}"
            return
        own = value.__module__.startswith("streamactors")
        bases = [base for base in value.__mro__[1:] if base in listed and base.__module__.startswith("streamactors")]
        after = f": {listed[bases[0]]}" if bases else ""
        yield f"{name}{_parameters(value) if own and not issubclass(value, BaseException) else ''}{after}"
        for member in sorted(dir(value)) if own else ():
            if member.startswith("_") or not _is_ours(value, member):
                continue
            line = _member(value, member)
            if not any(hasattr(base, member) and _member(base, member) == line for base in bases):
                yield f"{name}.{line}"
    elif callable(value):
        yield f"{name}{_parameters(value)}"
    else:
        yield name


def _member(cls: type, member: str) -> str:
    value = getattr(cls, member)
    return f"{member}{_parameters(value) if callable(value) else _kind(inspect.getattr_static(cls, member))}"


def _is_ours(cls: type, member: str) -> bool:
    owner = next((base for base in cls.__mro__ if member in vars(base)), None)
    return owner is not None and owner.__module__.startswith("streamactors")


def _kind(static: object) -> str:
    return " (property)" if isinstance(static, property) else ""


def _parameters(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(…)"
    shown = []
    for parameter in signature.parameters.values():
        default = parameter.default
        if default is not parameter.empty and not isinstance(default, (str, int, float, bool, type(None), tuple)):
            default = _Named(getattr(default, "__qualname__", type(default).__name__))
        shown.append(parameter.replace(annotation=parameter.empty, default=default))
    return str(signature.replace(parameters=shown, return_annotation=signature.empty))


class _Named:
    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}>"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
