"""Write docs/operators/ and docs/broker-reference.md from the code itself: `make docs`, or `python -m docs.generate [--check]`.

A page per topic, an index of all; each operator with its signature, its docstring (the four "when"s), how its stage treats the marks by
which a run knows what is done, and an example that is run here and drawn as marbles (pictures.py)."""

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
from docs import names as names_of_others
from docs.made_of import recorded
from docs.pictures import PICTURES, picture, program
from streamactors.engine.blueprint.modules import AsyncBoundary
from streamactors.engine.marks.marks import OPAQUE, Handling
from streamactors.engine.stage import GraphStage
from streamactors.testing.marbles import Marbles

PAGES = Path(__file__).parent / "operators"
TITLES = {"operators": "Operators", "sources": "Sources", "sinks": "Sinks"}
PICTURES_SAY = (
    "The examples were run over virtual time. In a picture a column is a frame of 10 ms: `-` nothing, `|` the end, `#` a failure, several "
    "elements of a frame in parentheses. `a`, `b` and `c` are the inputs, the last line is the result. "
    "`wait(x)` returns x after x frames, `add` a sum after two. The actor `tens` answers x with 10 * x, `checked` too but with an error for 0, "
    "`listener` appends what it gets to `seen`, which has a line of its own; `topic` is a topic."
)
AROUND = {
    "context.operators": "Operators on elements with a context",
    "context.with_context": "Sources and flows with a context",
    "dynamic.hubs": "Hubs",
    "dynamic.pub_sub": "Publish and subscribe",
    "dynamic.kill_switches": "Kill switches",
    "dynamic.restarts": "Restarts with back-off",
}
"""Modules beside the mix-ins, and the titles of their pages."""


def topics() -> list[tuple[str, str, Any]]:
    """Return (kind, topic, module) of every mix-in module of the DSL."""
    return [
        (kind, info.name, importlib.import_module(f"streamactors.dsl.{kind}.{info.name}"))
        for kind in TITLES
        for info in pkgutil.iter_modules([str(Path(streamactors.dsl.__file__).parent / kind)])
        if info.name not in ("base", "every")
    ]


def operators(module: Any, qualified: bool = False) -> list[tuple[str, type, Any, ast.FunctionDef]]:
    """Return (name, class, function, its syntax tree) of the public methods of a module's classes, in the order written."""
    tree = ast.parse(inspect.getsource(module))
    found: dict[str, tuple[str, type, Any, ast.FunctionDef]] = {}
    for cls in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        owner = getattr(module, cls.name)
        for node in cls.body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                member = inspect.getattr_static(owner, node.name)
                function = getattr(member, "__func__", member)
                if inspect.isfunction(function) and function.__doc__:
                    name = f"{cls.name}.{node.name}" if qualified else node.name
                    found[name] = (name, owner, function, node)
    return list(found.values())


def marks(stage: GraphStage | None, sink: bool) -> str:
    """Return one line on how a stage treats marks. Nothing passes a sink; its docstring says when a mark is done."""
    if stage is None:
        return ""
    if isinstance(stage, AsyncBoundary):
        return "Marks: pass exactly."
    if isinstance(inspect.getattr_static(type(stage), "emits_marks"), property):
        return "Marks: those of the source inside."
    if not stage.shape.inlets:
        return ""
    handling = getattr(stage, "handling", OPAQUE)
    if not isinstance(handling, Handling):
        return ""
    if not handling.passes:
        return "Marks: do not pass."
    if sink:
        return ""
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


def page(title: str, file: str, module: Any, marbles: Marbles, qualified: bool = False) -> str:
    """Return the text of one page."""
    source = module.__name__.replace(".", "/")
    lines = [
        f"# {title}",
        "",
        f"`make docs` generates this page from the docstrings of `{source}.py` and its stages.",
        "",
    ]
    lines += [inspect.cleandoc(module.__doc__ or ""), ""]
    examples = PICTURES.get(file.removesuffix(".md"), {})
    for name, owner, function, node in operators(module, qualified):
        lines += [
            f"## {name}",
            "",
            "```python",
            *textwrap.wrap(signature(name, node), 118, subsequent_indent="    "),
            "```",
            "",
        ]
        lines += ["```text", inspect.cleandoc(function.__doc__), "```", ""]
        example = examples[name]
        with recorded(owner, node.name) as stages:
            text, shown = program(example) if isinstance(example, str) else (example[0], picture(example, marbles))
        sink = node.returns is not None and ast.unparse(node.returns).startswith("Sink[")
        told = marks(stages[0] if stages else None, sink)
        if told:
            lines += [told, ""]
        lines += ["```python", text, "```", "", "```text", shown, "```", ""]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """Return every page by file name."""
    with Marbles() as marbles:
        return _pages(marbles)


def _pages(marbles: Marbles) -> dict[str, str]:
    made = {}
    index = [
        "# Operators",
        "",
        "`make docs` generates this page and those it leads to from the code.",
        "",
        PICTURES_SAY,
        "",
    ]
    for kind, title in TITLES.items():
        index += [f"## {title}", ""]
        for topic_kind, topic, module in topics():
            names = [name for name, *_ in operators(module)] if topic_kind == kind else []
            if names:
                file = f"{kind}-{topic}.md"
                made[file] = page(f"{title}: {topic.replace('_', ' ')}", file, module, marbles)
                links = ", ".join(f"[{name}]({file}#{name})" for name in names)
                index.append(f"- **{topic.replace('_', ' ')}**: {links}")
        index.append("")
    index += ["## Around them", ""]
    for name, title in AROUND.items():
        module = importlib.import_module(f"streamactors.dsl.{name}")
        file = f"{name.removeprefix('dynamic.').replace('.', '-').replace('_', '-')}.md"
        made[file] = page(title, file, module, marbles, qualified=True)
        names = [each for each, *_ in operators(module, qualified=True)]
        links = ", ".join(f"[{each}]({file}#{each.replace('.', '').lower()})" for each in names)
        index.append(f"- **{title}**: {links}")
    index.append("")
    index += [
        "## Coming from other libraries",
        "",
        "- [Akka Streams and Pekko Streams](akka-names.md)",
        "- [Rx, aiostream, streamz, Bytewax](other-names.md)",
        "",
    ]
    made["akka-names.md"] = names_of_others.akka_page()
    made["other-names.md"] = names_of_others.libraries_page()
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
