"""Writes docs/reference/: every public name with its signature and its parameters, a page per package, and one of all settings.

Operators have pages of their own (generate.py), errors a section of errors.md; the reference links to them."""

from __future__ import annotations

import importlib
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from docs import catalogue
from docs.described import NONE, Parameter, as_markdown, attribute_docs, first_sentence, parameters, prose, type_name
from tools.public_api import PACKAGES, _is_ours, _names

TITLES: Final = {
    "streamactors": "streamactors: streams",
    "streamactors.actors": "streamactors.actors",
    "streamactors.broker": "streamactors.broker",
    "streamactors.kafka": "streamactors.kafka",
    "streamactors.metrics": "streamactors.metrics",
    "streamactors.spark": "streamactors.spark",
    "streamactors.testing": "streamactors.testing",
    "streamactors.tracing": "streamactors.tracing",
    "streamactors.windows": "streamactors.windows",
}
MATERIALIZED: Final = (
    "streamactors.stages.watching.meter.RateMeter",
    "streamactors.stages.watching.monitor.FlowMonitor",
    "streamactors.windows.stage.queryable_store.QueryableStore",
    "streamactors.windows.topology.stream.TopologyStream",
)
"""Classes that no package exports, since a program only gets their objects: from an operator that materializes them, a control or a topology."""
FIXTURES: Final = ("kafka_broker", "kafka_topic", "kafka_cluster")
_ALSO_SETTINGS: Final = {"Cluster", "ResetProtection", "RetryTopics", "StageTraits", "BufferConfig", "State"}


@dataclass(frozen=True)
class Name:
    """A public name. `package`: where users import it from."""

    package: str
    name: str
    value: Any

    @property
    def page(self) -> str:
        """The page that describes it."""
        if inspect.isclass(self.value) and (self.name.endswith("Settings") or self.name in _ALSO_SETTINGS):
            return "settings"
        return self.package.removeprefix("streamactors").lstrip(".") or "streams"


@cache
def names() -> tuple[Name, ...]:
    """Return every public name once, where the first package offers it. Errors and what other libraries own are left out."""
    found: dict[int, Name] = {}
    for package in PACKAGES:
        module = importlib.import_module(f"streamactors{package}")
        values = [(name, getattr(module, name)) for name in _names(module)]
        values += [(cls.__name__, cls) for cls in _materialized() if package == _page_of(cls)]
        for name, value in values:
            own = getattr(value, "__module__", "").startswith("streamactors") or not callable(value)
            if own and not _is_error(value):
                found.setdefault(id(value), Name(f"streamactors{package}", name, value))
    return tuple(sorted(found.values(), key=lambda each: (each.package, each.name.lower())))


def _page_of(cls: type) -> str:
    return ".windows" if cls.__module__.startswith("streamactors.windows.") else ""


def pages() -> dict[str, str]:
    """Return the pages by file name."""
    made = {"index.md": _index()}
    for page in dict.fromkeys(each.page for each in names()):
        here = [each for each in names() if each.page == page]
        lines = [f"# {_title(page, here)}", "", "`make docs` generates this page from the source.", ""]
        for each in here:
            lines += _entry(each)
        if page == "testing":
            lines += _fixtures()
        made[f"{page}.md"] = "\n".join(lines)
    return made


def anchor(heading: str) -> str:
    """Return the anchor of a heading that is a name."""
    return heading.replace(".", "").lower()


def _title(page: str, here: list[Name]) -> str:
    return "Settings" if page == "settings" else TITLES[here[0].package]


def _index() -> str:
    lines = [
        "# Public names",
        "",
        "`make docs` generates these pages from the source: what is listed here is public, and the rest is inside.",
        "[Settings](settings.md) has every setting with its type, default, unit and meaning. [Operators](../operators/index.md) have pages of",
        "their own, and [errors](../errors.md#the-errors-of-this-package), too.",
        "",
    ]
    for package in TITLES:
        lines += [f"## {package}", ""]
        for each in names():
            if each.package == package:
                text = first_sentence(each.value) if callable(each.value) else ""
                lines.append(f"- [{each.name}]({each.page}.md#{anchor(each.name)}){': ' + text if text else ''}")
        lines.append("")
    return "\n".join(lines)


def _entry(each: Name) -> list[str]:
    value = each.value
    lines = [f"## {each.name}", ""]
    if inspect.isclass(value):
        return lines + _class(each, value)
    if callable(value):
        return lines + _function(f"{each.package}.{each.name}", value)
    if inspect.ismodule(value):
        return [*lines, f"The module `{value.__name__}`.", "", *_docstring(value)]
    return [*lines, f"`{each.package}.{each.name}`, a {type(value).__name__}.", ""]


def _class(each: Name, cls: type) -> list[str]:
    shown = parameters(cls)
    is_choice = hasattr(cls, "__members__")
    lines = _docstring(cls)
    if cls in _materialized():
        shown = []
    elif is_choice:
        lines += [f"One of {', '.join(f'`{each.name}.{member}`' for member in cls.__members__)}.", ""]
    else:
        lines += _signature(f"{each.package}.{each.name}", cls)
        lines += _table(shown)
    attributes, methods, linked = [], [], []
    for member in sorted(dir(cls)):
        if member.startswith("_") or not _is_ours(cls, member) or (is_choice and member in cls.__members__):
            continue
        static = inspect.getattr_static(cls, member)
        if link := _link(cls, member):
            linked.append(link)
        elif callable(getattr(cls, member)):
            methods.append(member)
        elif member not in {parameter.name for parameter in shown}:
            attributes.append((member, static))
    attributes += [
        (name, None) for name in attribute_docs(cls)
        if not name.startswith("_") and name not in {parameter.name for parameter in shown} and not hasattr(cls, name)
    ]  # fmt: skip
    if attributes:
        lines += ["| attribute | type | meaning |", "|---|---|---|"]
        lines += [_attribute(cls, name, static) for name, static in attributes] + [""]
    if linked:
        lines += [f"Operators and constructors: {', '.join(linked)}.", ""]
    for method in methods:
        lines += [f"### {each.name}.{method}", "", *_function(method, getattr(cls, method), cls)]
    return lines


def _attribute(cls: type, name: str, static: object) -> str:
    text = attribute_docs(cls).get(name, "")
    kind = ""
    if isinstance(static, property):
        text = text or prose(static)
        kind = type_name(inspect.signature(static.fget).return_annotation) if static.fget else ""
    return f"| `{name}` | {_code(kind)} | {_cell(text)} |"


def _function(shown: str, value: Callable[..., Any], around: type | None = None) -> list[str]:
    lines = _signature(shown, value)
    lines += _docstring(value)
    return lines + _table(parameters(value, around.__name__ if around else "", around))


def undescribed() -> list[str]:
    """Return the parameters of public functions, classes and methods of which the source says nothing, as `Class.method(parameter)`."""
    found = []
    for each in names():
        cls = each.value if inspect.isclass(each.value) else None
        if callable(each.value) and cls not in _materialized() and not hasattr(each.value, "__members__"):
            found += [f"{each.name}({one.name})" for one in parameters(each.value) if not one.meaning]
        for member in dir(cls) if cls is not None else ():
            if (
                not member.startswith("_")
                and _is_ours(cls, member)
                and callable(getattr(cls, member))
                and not _link(cls, member)
            ):
                shown = parameters(getattr(cls, member), each.name, cls)
                found += [f"{each.name}.{member}({one.name})" for one in shown if not one.meaning]
    return found


def _signature(shown: str, value: Callable[..., Any]) -> list[str]:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return []
    parts = []
    kinds = [each.kind for each in signature.parameters.values()]
    for position, each in enumerate(signature.parameters.values()):
        if each.name in {"self", "cls"}:
            continue
        is_first = each.kind is each.KEYWORD_ONLY and each.KEYWORD_ONLY not in kinds[:position]
        if is_first and each.VAR_POSITIONAL not in kinds:
            parts.append("*")
        stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        parts.append(f"{stars}{each.name}{'' if each.default is each.empty else '=…'}")
    result = "" if inspect.isclass(value) else type_name(signature.return_annotation)
    text = f"{shown}({', '.join(parts)})" + (f" -> {result}" if result else "")
    return ["```python", *textwrap.wrap(text, 100, subsequent_indent="    ", break_long_words=False), "```", ""]


def _table(shown: list[Parameter]) -> list[str]:
    if not shown:
        return []
    units = any(each.unit for each in shown)
    lines = [
        f"| parameter | type | default |{' unit |' if units else ''} meaning |",
        "|---" * (5 if units else 4) + "|",
    ]
    for each in shown:
        default = _code(each.default) if each.default else "required"
        unit = f" {each.unit or NONE} |" if units else ""
        lines.append(f"| `{each.name}` | {_code(each.type)} | {default} |{unit} {_cell(each.meaning)} |")
    return [*lines, ""]


def _docstring(value: Any) -> list[str]:
    return as_markdown(prose(value))


def _fixtures() -> list[str]:
    from streamactors.testing import kafka_fixtures

    lines = ["## Fixtures of pytest", "", "Installed with the package; a test names them as its parameters.", ""]
    for name in FIXTURES:
        fixture = getattr(kafka_fixtures, name)
        lines += [f"### {name}", "", *_docstring(getattr(fixture, "__wrapped__", fixture))]
    return lines


@cache
def _materialized() -> set[type]:
    paths = [path.rpartition(".") for path in MATERIALIZED]
    return {getattr(importlib.import_module(module), name) for module, _, name in paths}


@cache
def _operators() -> dict[tuple[type, str], str]:
    """Return the link to each operator, by its class and name."""
    return {
        (
            each.owner,
            each.node.name,
        ): f"[{each.node.name}](../operators/{page.name}.md#{each.name.replace('.', '').lower()})"
        for page in catalogue.pages()
        for each in page.operators
    }


@cache
def _of_flow() -> dict[str, str]:
    """Return the link to each operator by its name: Flow has them as constructors."""
    methods = {each.node.name for page in catalogue.pages() if page.kind == "operators" for each in page.operators}
    return {name: link for (_, name), link in _operators().items() if name in methods}


def _link(cls: type, member: str) -> str | None:
    """Return the link to the operator that a member is; None for other members."""
    owner = next(base for base in cls.__mro__ if member in vars(base))
    found = _operators().get((owner, member))
    return found or (_of_flow().get(member) if cls.__name__ == "Flow" else None)


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, BaseException)


def _code(text: str) -> str:
    return f"`{text}`" if text else NONE


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|") or NONE
