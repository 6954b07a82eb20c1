"""Write docs/operators/, docs/reference/, docs/broker-reference.md and the schema of the dashboard from the code itself: `make docs`, or
`python -m docs.generate [--check]`. The two folders are made and not kept: git does not have them.

A page per topic, an index of all; each operator with its signature, its docstring (the four "when"s), how its stage treats the marks by
which a run knows what is done, and an example that is run here and drawn as marbles (pictures.py)."""

from __future__ import annotations

import ast
import inspect
import shutil
import sys
import textwrap
from functools import cache
from pathlib import Path

from docs import broker_page, catalogue, errors_page, metrics_page, reference
from docs import names as names_of_others
from docs.catalogue import Page
from docs.described import as_markdown
from docs.made_of import recorded
from docs.pictures import picture, program
from streamactors.dashboard import schema
from streamactors.engine.blueprint.modules import AsyncBoundary
from streamactors.engine.marks.marks import OPAQUE, Handling
from streamactors.engine.stage import GraphStage
from streamactors.testing.marbles import Marbles

DOCS = Path(__file__).parent
MADE = ("operators", "reference")
"""The folders of pages that are out of git: a clone makes them, and the wheel has them."""
PICTURES_SAY = (
    "The examples were run over virtual time. In a picture a column is a frame of 10 ms: `-` nothing, `|` the end, `#` a failure, several "
    "elements of a frame in parentheses. `a`, `b` and `c` are the inputs, the last line is the result. "
    "`wait(x)` returns x after x frames, `add` a sum after two. The actor `tens` answers x with 10 * x, `checked` too but with an error for 0, "
    "`listener` appends what it gets to `seen`, which has a line of its own; `topic` is a topic."
)


def marks(stage: GraphStage | None, sink: bool) -> str:
    """Return one line on how a stage treats marks. Nothing passes a sink; its docstring says when a mark is done."""
    if stage is None:
        return ""
    if isinstance(stage, AsyncBoundary):
        return "Marks: pass exactly."
    if isinstance(inspect.getattr_static(type(stage), "traits"), property):
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


def page(of: Page, marbles: Marbles) -> str:
    """Return the text of one page."""
    source = of.module.__name__.replace(".", "/")
    lines = [
        f"# {of.title}",
        "",
        f"`make docs` generates this page from the docstrings of `{source}.py` and its stages.",
        "",
    ]
    lines += [inspect.cleandoc(of.module.__doc__ or ""), ""]
    for operator in of.operators:
        example = operator.example
        assert example is not None, f"{operator.owner.__name__}.{operator.node.name}: its docstring has no example"
        with recorded(operator.owner, operator.node.name) as stages:
            shown = program(example.code) if example.is_program else picture(example, marbles)
        returns = operator.node.returns
        sink = returns is not None and ast.unparse(returns).startswith("Sink[")
        told = marks(stages[0] if stages else None, sink)
        head = textwrap.wrap(signature(operator.name, operator.node), 118, subsequent_indent="    ")
        lines += [f"## {operator.name}", "", "```python", *head, "```", ""]
        lines += as_markdown(operator.contract)
        lines += [told, ""] if told else []
        lines += ["```python", example.code, "```", "", "```text", shown, "```", ""]
    return "\n".join(lines)


@cache
def pages() -> dict[str, str]:
    """Return every page of operators by file name."""
    with Marbles() as marbles:
        made = {f"{each.name}.md": page(each, marbles) for each in catalogue.pages() if each.operators}
    made["akka-names.md"] = names_of_others.akka_page()
    made["other-names.md"] = names_of_others.libraries_page()
    made["index.md"] = index()
    return made


def index() -> str:
    """Return the page that links to every operator."""
    lines = [
        "# Operators",
        "",
        "`make docs` generates this page and those it leads to from the code.",
        "",
        PICTURES_SAY,
        "",
    ]
    for kind, title in (catalogue.KINDS | {"around": "Around them"}).items():
        lines += [f"## {title}", ""]
        for each in catalogue.pages():
            if each.kind == kind and each.operators:
                names = [operator.name for operator in each.operators]
                links = ", ".join(f"[{name}]({each.name}.md#{_anchor(name)})" for name in names)
                topic = each.title if kind == "around" else each.title.partition(": ")[2]
                lines.append(f"- **{topic}**: {links}")
        lines.append("")
    lines += [
        "## Coming from other libraries",
        "",
        "- [Akka Streams and Pekko Streams](akka-names.md)",
        "- [Rx, aiostream, streamz, Bytewax](other-names.md)",
        "",
    ]
    return "\n".join(lines)


def _anchor(name: str) -> str:
    return name.replace(".", "").lower() if "." in name else name


def made() -> dict[str, str]:
    """Return the pages that are made and not kept, by their file below docs/: operators and public names."""
    of_folders = {"operators": pages(), "reference": reference.pages()}
    return {f"{folder}/{name}": _file(text) for folder, texts in of_folders.items() for name, text in texts.items()}


def write_made(docs: Path = DOCS) -> None:
    """Write the pages that are made and not kept, and remove older ones."""
    for folder in MADE:
        shutil.rmtree(docs / folder, ignore_errors=True)
        (docs / folder).mkdir()
    for name, text in made().items():
        (docs / name).write_text(text, encoding="utf-8")


def _file(text: str) -> str:
    return text.rstrip() + "\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with --check say which of those that are kept are out of date."""
    kept = {
        broker_page.PAGE: _file(broker_page.text()),
        errors_page.PAGE: _file(errors_page.text()),
        metrics_page.PAGE: _file(metrics_page.text()),
        schema.FILE: schema.text(),
    }
    if "--check" in arguments:
        stale = [path for path, text in kept.items() if not path.exists() or path.read_text() != text]
        print("".join(f"{path.relative_to(DOCS.parent)} is out of date; run: make docs\n" for path in stale), end="")
        return 1 if stale else 0
    for path, text in kept.items():
        path.write_text(text)
    write_made()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
