"""Finds what an operator still lacks: a stage, lines of its docstring, a test, or its place in the files that `make docs` writes.

Caller: tests/docs/test_operators_are_whole.py."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs import generate
from docs.catalogue import KINDS, Operator, Page
from streamactors.engine.stage import GraphStage

ROOT: Final = Path(__file__).resolve().parent.parent
WHENS: Final = ("Emits when:", "Backpressures when:", "Completes when:", "Cancels when:")
_TEST: Final = "test_operators_are_whole.py"
_CUTS: Final = ("tests.stages.laws", "tests.stages.harness", ".max_chunk(")
"""What a test file has that runs operators over several ways to cut their input into chunks."""
_ENGINE: Final = "streamactors.engine."
_OTHERS: Final = re.compile(r"\b[Aa]s `\w+")
"""A contract that is another operator's: "As `map`"."""
_JOINED: Final = {
    "operators": ("all_operators", "Source", "Flow"),
    "sources": ("all_sources", "Source"),
    "sinks": ("all_sinks", "Sink"),
}
"""By kind: the module that joins the mix-ins, and the public classes that have its methods."""


@dataclass(frozen=True)
class Written:
    """Texts in which every operator has a place. `stubs`: by kind. `tests`: the other files of tests. `laws`: those that cut the input into chunks."""

    stubs: dict[str, str]
    pages: dict[str, str]
    index: str
    names: str
    tests: str
    laws: str

    @classmethod
    def read(cls) -> Written:
        """Return the texts of this tree."""
        pages = {name.removesuffix(".md"): text for name, text in generate.pages().items()}
        tests = [path.read_text() for path in (ROOT / "tests").rglob("test_*.py") if path.name != _TEST]
        return cls(
            {kind: _stub(kind).read_text() for kind in _JOINED},
            pages,
            pages["index"],
            (ROOT / "tests" / "public_api.txt").read_text(),
            "\n".join(tests),
            "\n".join(text for text in tests if any(cut in text for cut in _CUTS)),
        )


def missing(operator: Operator, page: Page, written: Written) -> list[str]:
    """Return what an operator of a page lacks: a sentence each, with the file to edit or the command to run."""
    name = operator.node.name
    lacks = _stages_missing(operator)
    if page.kind == "operators":
        lacks += _marks_missing(operator)
    if page.kind in KINDS:
        lacks += _contract_missing(operator, page.kind)
    if operator.example is None:
        lacks.append(f"its docstring in {_file(page)} has no block `Example:`")
    if page.kind in KINDS:
        lacks += _made_missing(name, page, written)
        lacks += _tests_missing(operator, page, written)
    if f"\n## {operator.name}\n" not in written.pages.get(page.name, ""):
        lacks.append(f"docs/operators/{page.name}.md has no heading {operator.name}: run make docs")
    if f"[{operator.name}]({page.name}.md#" not in written.index:
        lacks.append(f"docs/operators/index.md has no link to {operator.name}: run make docs")
    return lacks


def _stages_missing(operator: Operator) -> list[str]:
    """The files of stages that the method imports when it is called, and that are not there."""
    return [
        f"{module.replace('.', '/')}.py has no {name}, which its method imports: write the stage"
        for module, name in _imported(operator)
        if not _exists(module, name)
    ]


def _marks_missing(operator: Operator) -> list[str]:
    """The stages that do not say how they treat marks; OPAQUE is an answer, too."""
    return [
        f"{module.replace('.', '/')}.py: the stage {name} does not declare `handling`, how it treats marks"
        for module, name in _imported(operator)
        if _exists(module, name)
        and _is_stage(stage := getattr(importlib.import_module(module), name))
        and not any("handling" in inspect.getsource(base) for base in stage.__mro__ if _is_stage(base))
    ]


def _is_stage(found: object) -> bool:
    """True for a class of stages, without the bases of the engine."""
    return isinstance(found, type) and issubclass(found, GraphStage) and not found.__module__.startswith(_ENGINE)


def _tests_missing(operator: Operator, page: Page, written: Written) -> list[str]:
    """No test at all, or for a stage no test that cuts the input into chunks."""
    name = operator.node.name
    if not re.search(rf"[.'\"]{name}\b", written.tests):
        return [f"no test in tests/ calls {name}: add it to the laws in tests/stages/"]
    stages = [stage for _, stage in _imported(operator) if stage[0].isupper()]
    if page.kind != "operators" or not stages:
        return []
    if re.search(rf"\.{name}\(|\b({'|'.join(stages)})\b", written.laws):
        return []
    return [
        f"no law test runs {name} or its stage: add a Case to tests/stages/test_laws_*.py, or a test with max_chunk(…)"
    ]


def _contract_missing(operator: Operator, kind: str) -> list[str]:
    """The lines of the contract. A sink emits nothing, and an operator without a stage is made of others: they say it in prose."""
    whens = {
        "operators": WHENS if any(name[0].isupper() for _, name in _imported(operator)) else (),
        "sources": WHENS[:1],
        "sinks": (),
    }[kind]
    if _OTHERS.search(operator.contract):
        return []
    return [f"its docstring does not say `{when}`" for when in whens if when not in operator.contract]


def _made_missing(name: str, page: Page, written: Written) -> list[str]:
    joined, *classes = _JOINED[page.kind]
    lacks = []
    if not re.search(rf"^    def {name}\(", written.stubs[page.kind], re.MULTILINE):
        lacks.append(
            f"{_stub(page.kind).relative_to(ROOT)} has no {name}: run make docs, if {joined}.py has its mix-in"
        )
    lacks += [
        f"tests/public_api.txt has no line streamactors.{cls}.{name}: run make docs"
        for cls in classes
        if not re.search(rf"^streamactors\.{cls}\.{name}\(", written.names, re.MULTILINE)
    ]
    return lacks


def _imported(operator: Operator) -> list[tuple[str, str]]:
    """Return the imports from streamactors.stages inside the method's body, as pairs (module, name)."""
    return [
        (node.module, alias.name)
        for node in ast.walk(operator.node)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("streamactors.stages.")
        for alias in node.names
    ]


def _exists(module: str, name: str) -> bool:
    try:
        return hasattr(importlib.import_module(module), name)
    except ModuleNotFoundError:
        return False


def _stub(kind: str) -> Path:
    return ROOT / "streamactors" / "dsl" / kind / f"{_JOINED[kind][0]}.pyi"


def _file(page: Page) -> str:
    return page.module.__name__.replace(".", "/") + ".py"
