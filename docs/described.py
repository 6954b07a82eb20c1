"""What the source says of a public class or function, for the reference: its docstring, and its parameters with type, default, unit and meaning.

The meaning of a parameter is the docstring of the field, or the sentences of the docstring that name it, or what `parameters.py` says."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from docs.parameters import MEANINGS

NONE: Final = "—"
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"(])")
_WHENS = re.compile(
    r"(?:^|\s{2,}|(?<=\.)\s)((?:Emits|Backpressures|Completes|Cancels|Fails) when|Supervision|Marks):\s*"
)
_UNITS: Final = (
    ("_ms", "milliseconds"),
    ("_s", "seconds"),
    ("_bytes", "bytes"),
    ("_length", "bytes"),
    ("_seconds", "seconds"),
    ("_records", "records"),
    ("_rows", "rows"),
    ("_chunk", "elements"),
    ("_retries", "times"),
    ("_restarts", "times"),
)
_OF_TYPES: Final = (
    ("Duration", 'a duration: `"5s"`, a timedelta, or seconds'),
    ("EventSpan", 'event time: `"5s"`, a timedelta, or milliseconds'),
)


@dataclass(frozen=True)
class Parameter:
    """A parameter or a field. `default`: as Python writes it; empty if there is none. `meaning`: empty if the source says nothing."""

    name: str
    type: str
    default: str
    unit: str
    meaning: str


def parameters(value: Callable[..., Any], of: str = "", around: type | None = None) -> list[Parameter]:
    """Return the parameters of a function or a class. `of`: the class whose method it is, by name; `around`: the class itself."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    owner = value if inspect.isclass(value) else around
    attributes = attribute_docs(owner) if owner is not None else {}
    texts = [prose(value)]
    if inspect.isclass(value):
        texts.append(inspect.cleandoc(value.__init__.__doc__ or ""))  # type: ignore[misc]
        of = value.__name__
    elif around is not None:
        texts.append(prose(around))
    return [
        Parameter(
            each.name,
            type_name(each.annotation),
            "" if each.default is each.empty else default_text(value, each) + _in_mib(each),
            unit(each.name, type_name(each.annotation)),
            meaning(each.name, of, attributes, texts),
        )
        for each in signature.parameters.values()
        if each.name not in {"self", "cls"}
    ]


def meaning(name: str, of: str, attributes: dict[str, str], texts: list[str]) -> str:
    """Return what a parameter means: an empty string if nothing says it."""
    if name in attributes:
        return " ".join(attributes[name].split())
    own, *around = texts
    if said := _sentences(own, name):
        return said
    if special := MEANINGS.get(f"{of}.{name}"):
        return special  # a class may speak of a method with the name of a parameter
    return next((said for text in around if (said := _sentences(text, name))), MEANINGS.get(name, ""))


def _sentences(text: str, name: str) -> str:
    """Return the sentences that name a parameter; `name: meaning` begins with the meaning."""
    named = re.compile(rf"`\*{{0,2}}{re.escape(name)}\b")
    found = [sentence for sentence in _SENTENCE.split(" ".join(text.split())) if named.search(sentence)]
    said = " ".join(found[:2])
    return re.sub(rf"^`{re.escape(name)}`(?: is|:) ", "", said)


def unit(name: str, type_: str) -> str:
    """Return the unit that the type or the name of a parameter says; an empty string if there is none."""
    for part, words in _OF_TYPES:
        if re.search(rf"\b{part}\b", type_):
            return words
    return next((words for suffix, words in _UNITS if name.endswith(suffix)), "")


def type_name(annotation: Any) -> str:
    """Return a type as the source writes it, without modules. Alternatives are joined by `or`, since a table has bars of its own."""
    if annotation is inspect.Parameter.empty:
        return ""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Z])", "", text).strip("'\"").replace(" | ", " or ")


def default_text(value: Callable[..., Any], parameter: inspect.Parameter) -> str:
    """Return a default as Python writes it. A factory of a dataclass is called."""
    default = parameter.default
    if type(default).__name__ == "_HAS_DEFAULT_FACTORY_CLASS" and is_dataclass(value):
        factory = next(each.default_factory for each in fields(value) if each.name == parameter.name)
        default = factory() if callable(factory) else default
    if isinstance(default, (str, int, float, bool, type(None), tuple, dict, list, bytes)):
        return repr(default)
    return getattr(default, "__qualname__", None) or f"{type(default).__name__}()"


def _in_mib(parameter: inspect.Parameter) -> str:
    """Return a large number of bytes in MiB, for people."""
    default = parameter.default
    is_large = parameter.name.endswith("_bytes") and isinstance(default, int) and default >= 1 << 20
    return f" ({default >> 20} MiB)" if is_large else ""


@cache
def attribute_docs(cls: type) -> dict[str, str]:
    """Return the docstrings below the fields of a class and its bases."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("streamactors"):
            found |= dict(_below_fields(base))
    return found


def _below_fields(cls: type) -> Iterator[tuple[str, str]]:
    tree = _classes(inspect.getsourcefile(cls) or "").get(cls.__name__)
    if tree is None:
        return
    inits = [node.body for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "__init__"]
    for body in [tree.body, *inits]:
        for field, text in pairwise(body):
            targets = field.targets if isinstance(field, ast.Assign) else [getattr(field, "target", None)]
            is_text = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
            if isinstance(field, (ast.AnnAssign, ast.Assign)) and is_text and isinstance(text.value.value, str):  # type: ignore[attr-defined]
                name = getattr(targets[0], "id", None) or getattr(targets[0], "attr", "")
                yield name, inspect.cleandoc(text.value.value)  # type: ignore[attr-defined]


@cache
def _classes(file: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def prose(value: Any) -> str:
    """Return the docstring without its example. A class whose docstring is that of a dataclass's signature has none."""
    text = inspect.cleandoc(getattr(value, "__doc__", None) or "")
    if inspect.isclass(value) and text.startswith(f"{value.__name__}("):
        return ""
    return text.partition("\n\nExample:\n")[0]


def as_markdown(text: str) -> list[str]:
    """Return the prose of a docstring as lines of Markdown: the lines of a stage's contract become a list."""
    lines: list[str] = []
    for line in text.splitlines():
        label, *parts = _WHENS.split(line)
        is_list = bool(parts) or line.startswith("- ")
        if is_list and lines and lines[-1] and not lines[-1].startswith(("- ", " ")):
            lines.append("")
        if not parts:
            lines.append(line)
        elif label.strip():
            lines += [label.strip(), ""]
        lines += [f"- **{when}**: {said.strip()}" for when, said in zip(parts[::2], parts[1::2], strict=True)]
    return [*lines, ""] if lines else []


def first_sentence(value: Any) -> str:
    """Return the first sentence of a docstring, on one line."""
    return _SENTENCE.split(" ".join(prose(value).split()))[0]
