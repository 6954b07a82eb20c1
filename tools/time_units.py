"""Public functions that take a time, and whether they say its unit: in the parameter's name (`linger_ms`), or in the docstring."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from tools.public_api import PACKAGES

TIME = re.compile(
    r"(timeout|delay|interval|duration|period|within|backoff|linger|grace|gap|retention|size_of_window)", re.I
)
IN_NAME = re.compile(r"_(ms|s|us|at)$")
UNIT = re.compile(r"\b(ms|milliseconds?|seconds?)\b")
SPANS = re.compile(r"\b(Duration|Timeout|timedelta)\b")


def public_callables() -> Iterator[tuple[str, Any, str]]:
    """Yield (name, callable, docstring) of every public function, class and method, each once."""
    seen = set()
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        for name in getattr(module, "__all__", []):
            value = getattr(module, name)
            if not getattr(value, "__module__", "").startswith("streamactors") or id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{value.__module__}.{name}", value, _doc(value)
            for member in sorted(dir(value)) if inspect.isclass(value) else ():
                found = getattr(value, member)
                ours = (getattr(found, "__module__", "") or "").startswith("streamactors")
                if not member.startswith("_") and callable(found) and ours and not inspect.isclass(found):
                    yield f"{value.__module__}.{name}.{member}", found, _doc(found)


def _doc(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    if inspect.isclass(value):
        text += inspect.getdoc(value.__init__) or ""
    return text


def times_of(value: Any) -> list[str]:
    """Return the parameters that take a time without the unit in their names."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return []
    return [
        p.name
        for p in parameters
        if not IN_NAME.search(p.name)
        and (SPANS.search(str(p.annotation)) or (TIME.search(p.name) and p.annotation != "str"))
    ]


def silent() -> list[str]:
    """Return the public functions whose docstrings name no unit for the times that they take."""
    return [
        f"{name}({', '.join(times)})"
        for name, value, doc in public_callables()
        if (times := times_of(value)) and not UNIT.search(doc)
    ]
