"""Write docs/operators/ and docs/broker.md from the code itself: `make docs`, or `python -m docs.generate [--check]`.

A page per topic, an index of all; each operator with its signature, its docstring (the four "when"s), and how its stage treats the
marks by which a run knows what is done."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import sys
import textwrap
from pathlib import Path
from typing import Any

import streamactors.dsl
from docs import broker_page
from streamactors.engine.marks import OPAQUE, Handling
from streamactors.engine.stage import GraphStage

PAGES = Path(__file__).parent / "operators"
TITLES = {"ops": "Operators", "sources": "Sources", "sinks": "Sinks"}
AROUND = {
    "context_ops": "Operators on elements with a context",
    "with_context": "Sources and flows with a context",
    "kill_switches": "Kill switches",
    "restarts": "Restarts with back-off",
}
"""Modules beside the mix-ins, and the titles of their pages."""


def topics() -> list[tuple[str, str, Any]]:
    """Return (kind, topic, module) of every mix-in module of the DSL."""
    found = []
    for info in pkgutil.iter_modules(streamactors.dsl.__path__):
        kind, _, topic = info.name.partition("_")
        if kind in TITLES and topic:
            found.append((kind, topic, importlib.import_module(f"streamactors.dsl.{info.name}")))
    return found


def operators(module: Any, qualified: bool = False) -> list[tuple[str, Any, ast.FunctionDef]]:
    """Return (name, function, its syntax tree) of the public methods of a module's classes, in the order written."""
    tree = ast.parse(inspect.getsource(module))
    found: dict[str, tuple[str, Any, ast.FunctionDef]] = {}
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        owner = getattr(module, cls.name)
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                member = inspect.getattr_static(owner, node.name)
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and function.__doc__:
                    name = f"{cls.name}.{node.name}" if qualified else node.name
                    found[name] = (name, function, node)
    return list(found.values())


def stage_of(module: Any, node: ast.FunctionDef) -> type[GraphStage] | None:
    """Return the stage class an operator's body makes, None when it is composed of others."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            value = getattr(module, call.func.id, None)
            if isinstance(value, type) and issubclass(value, GraphStage):
                return value
    return None


def marks(stage: type[GraphStage] | None) -> str:
    """Return one line on how a stage treats marks."""
    if stage is None:
        return ""
    if isinstance(inspect.getattr_static(stage, "emits_marks"), property):
        return "Marks: those of the source inside."
    if not stage.shape.inlets and not stage.emits_marks:
        return ""
    handling = getattr(stage, "handling", OPAQUE)
    if not isinstance(handling, Handling):
        return ""
    if not handling.passes:
        return "Marks: do not pass."
    words = ["pass", "exactly" if handling.exact else "but blur (later elements may have come out before)"]
    return f"Marks: {' '.join(words)}{'; results depend on earlier elements' if handling.remembers else ''}."


def signature(name: str, node: ast.FunctionDef) -> str:
    """Return the signature as written, without self."""
    text = ast.unparse(node.args)
    for first in ("self, ", "cls, ", "self", "cls"):
        if text.startswith(first):
            text = text[len(first) :]
            break
    result = ast.unparse(node.returns) if node.returns else ""
    return f"{name}({text}) -> {result}"


def page(title: str, module: Any, qualified: bool = False) -> str:
    """Return the text of one page."""
    lines = [f"# {title}", "", inspect.cleandoc(module.__doc__ or ""), ""]
    for name, function, node in operators(module, qualified):
        lines += [
            f"## {name}",
            "",
            "```python",
            *textwrap.wrap(signature(name, node), 118, subsequent_indent="    "),
            "```",
            "",
        ]
        lines += ["```text", inspect.cleandoc(function.__doc__), "```", ""]
        told = marks(stage_of(module, node))
        if told:
            lines += [told, ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return every page by file name."""
    made = {}
    index = ["# Operators", "", "Generated from the code by `make docs`.", ""]
    for kind, title in TITLES.items():
        index += [f"## {title}", ""]
        for topic_kind, topic, module in topics():
            names = [name for name, _, _ in operators(module)] if topic_kind == kind else []
            if names:
                file = f"{kind}-{topic}.md"
                made[file] = page(f"{title}: {topic.replace('_', ' ')}", module)
                links = ", ".join(f"[{name}]({file}#{name})" for name in names)
                index.append(f"- **{topic.replace('_', ' ')}**: {links}")
        index.append("")
    index += ["## Around them", ""]
    for name, title in AROUND.items():
        module = importlib.import_module(f"streamactors.dsl.{name}")
        file = f"{name.replace('_', '-')}.md"
        made[file] = page(title, module, qualified=True)
        names = [each for each, _, _ in operators(module, qualified=True)]
        links = ", ".join(f"[{each}]({file}#{each.replace('.', '').lower()})" for each in names)
        index.append(f"- **{title}**: {links}")
    index.append("")
    made["index.md"] = "\n".join(index)
    return made


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say which are out of date."""
    wanted = {PAGES / name: text.rstrip() + "\n" for name, text in pages().items()}
    wanted[broker_page.PAGE] = broker_page.text().rstrip() + "\n"
    if "--check" in arguments:
        stale = [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        print(
            "".join(f"docs/{path.relative_to(PAGES.parent)} is out of date; run: make docs\n" for path in stale), end=""
        )
        return 1 if stale else 0
    PAGES.mkdir(parents=True, exist_ok=True)
    for old in PAGES.glob("*.md"):
        if old not in wanted:
            old.unlink()
    for path, text in wanted.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
