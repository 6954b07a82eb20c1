"""List the public API: every public name with its parameters and their defaults, and every public method of public classes.

python tools/public_api.py            write tests/public_api.txt
python tools/public_api.py --check    exit with 1 if the list is out of date"""

from __future__ import annotations

import difflib
import importlib
import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "public_api.txt"
PACKAGES = ("", ".actors", ".broker", ".kafka", ".spark", ".testing", ".windows")


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
    """Yield the lines."""
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        for name in sorted(n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")):
            yield from _lines(f"streamactors{package}.{name}", getattr(module, name))


def _lines(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        own = value.__module__.startswith("streamactors")
        yield f"{name}{_parameters(value) if own and not issubclass(value, BaseException) else ''}"
        for member in sorted(dir(value)) if own else ():
            static = inspect.getattr_static(value, member)
            if not member.startswith("_") and _is_ours(value, member):
                yield f"{name}.{member}{_parameters(getattr(value, member)) if callable(getattr(value, member)) else _kind(static)}"
    elif callable(value):
        yield f"{name}{_parameters(value)}"
    else:
        yield name


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
