"""The shape of the code: no import cycles, few arrows inside kafka, and libraries that only one package loads.

import-linter holds the layers (`.importlinter`); these tests hold what it cannot say."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools.arrows import ROOT, arrows, cycles, files, imported_by, imports

ALLOWED_CYCLES: dict[str, str] = {
    # the files of a cycle, separated by spaces -> why they import each other
    "streamactors.windows.topology.grouped streamactors.windows.topology.ready streamactors.windows.topology.stream "
    "streamactors.windows.topology.table": (
        "streams, groups and tables make each other: each method returns what the user continues with"
    ),
}


def test_no_file_imports_a_file_that_imports_it() -> None:
    """Inside one package a file may import a type under TYPE_CHECKING from any file. Between packages types count, too."""
    found = {" ".join(group) for group in cycles(imports(annotations=False))}
    assert found - ALLOWED_CYCLES.keys() == set(), "a new cycle: move the shared type down"
    assert len(ALLOWED_CYCLES) <= 5


def test_a_cycle_of_two_files_is_found_and_a_chain_is_none() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": set()}) == []
    assert cycles({"a": {"b"}, "b": {"a", "c"}, "c": set(), "d": {"a"}}) == [["a", "b"]]


def test_an_import_for_annotations_counts_between_packages_only() -> None:
    known = {"streamactors.engine.a", "streamactors.engine.b", "streamactors.stages.c"}
    source = """
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    from streamactors.engine import b
    from streamactors.stages.c import C
def f():
    %s
"""
    types, run = source % "pass", source % "from streamactors.engine import b"
    assert imported_by("streamactors.engine.a", types, known, annotations=False) == {"streamactors.stages.c"}
    assert imported_by("streamactors.engine.a", types, known) == {"streamactors.engine.b", "streamactors.stages.c"}
    assert imported_by("streamactors.engine.a", run, known, annotations=False) == {
        "streamactors.engine.b",
        "streamactors.stages.c",
    }


def test_a_room_imports_only_the_rooms_below_it() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--config", ".importlinter-rooms"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    assert linted.returncode == 0, linted.stdout


def test_the_rooms_of_kafka_fit_into_a_drawing() -> None:
    nodes, pairs = arrows("streamactors.kafka", imports())
    assert len(nodes) <= 30
    assert len(pairs) <= 113


@pytest.mark.parametrize(
    ("library", "package"),
    [("kio", "streamactors/broker/protocol/"), ("confluent_kafka", "streamactors/kafka/client/")],
)
def test_a_library_that_is_loaded_by_name_is_loaded_in_one_package(library: str, package: str) -> None:
    loads = re.compile(rf"import_module\(f?[\"']{library}\b|^\s*(?:import|from) {library}\b", re.MULTILINE)
    loading = {str(path.relative_to(ROOT)) for path in files().values() if loads.search(_text(path))}
    assert loading
    assert {name for name in loading if not name.startswith(package)} == set()


def test_a_state_file_is_pure() -> None:
    """A file named `*_state.py` holds rules without a clock, a socket, a thread or a logger."""
    imported = re.compile(
        r"^\s*(?:import|from) (asyncio|logging|select|socket|threading|time|streamactors\.clock)\b", re.MULTILINE
    )
    states = [path for path in files().values() if path.name.endswith("_state.py")]
    assert states
    assert [str(path.relative_to(ROOT)) for path in states if imported.search(_text(path))] == []


@pytest.mark.parametrize(
    ("program", "most"),
    [
        ("from streamactors import Source, Sink", 90),
        ("from streamactors import SourceWithContext, FlowWithContext", 125),
        ("from streamactors.kafka import Consumer", 130),
    ],
)
def test_an_import_loads_few_modules(program: str, most: int) -> None:
    """A stage is loaded when its operator is first called, and a client when it is first needed: `python -X importtime` names who loads what."""
    count = "print(*sorted(name for name in sys.modules if name.startswith('streamactors.')))"
    done = subprocess.run(
        [sys.executable, "-c", f"import sys\n{program}\n{count}"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    loaded = done.stdout.split()
    assert len(loaded) <= most, loaded


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_what_a_test_imports_from_another_file_of_tests_is_there() -> None:
    # The suites that compare with other systems are not loaded by `make test`, so a renamed helper would be missed.
    defined: dict[str, set[str]] = {}
    imported: list[tuple[Path, str, str]] = []
    for path in (ROOT / "tests").rglob("*.py"):
        nodes = list(ast.walk(ast.parse(_text(path))))  # not kept: all files together have millions
        defined[_module(path)] = _defined(nodes)
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        imported += [(path, node.module or "", name.name) for node in froms for name in node.names]
    missing = [
        f"{path.relative_to(ROOT)}: {module}.{name}"
        for path, module, name in imported
        if module in defined and name not in defined[module] and f"{module}.{name}" not in defined
    ]
    assert missing == []


def _module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _defined(nodes: list[ast.AST]) -> set[str]:
    """Return every name that a file binds, at any depth."""
    bound: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {alias.asname or alias.name for alias in node.names}
    return bound
