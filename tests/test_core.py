"""`make core` keeps tests of every room that needs no Spark, and nothing that it runs imports what it does not install."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import core
from tests.core import TESTS, is_core, left_out

ROOT = TESTS.parent
MADE_BY_A_TEST = "_that_"  # of test_own_process.py, which may remove it at any moment
OWN = {"streamactors", "tests", "tools", "docs", "benchmarks"}


def test_what_core_leaves_out_is_there_and_has_a_reason() -> None:
    left = left_out()
    assert [str(path) for path in left if not path.exists()] == []
    lines = [line for line in core.LIST.read_text().splitlines() if line and line[0] not in "[#"]
    assert len(lines) == len(left), "a path is listed twice"
    assert [str(path) for path in left if not is_core(path.parent, left)] == [], "its folder is listed, too"


def test_a_path_without_a_reason_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "list.txt").write_text("# A remark.\nspark/\n")
    monkeypatch.setattr(core, "LIST", tmp_path / "list.txt")
    with pytest.raises(ValueError, match=r"list\.txt: spark/ has no reason above it"):
        left_out.__wrapped__()


def test_core_has_tests_of_every_room_that_it_does_not_leave_out() -> None:
    left = left_out()
    rooms: dict[Path, list[bool]] = defaultdict(list)
    for path in TESTS.rglob("test_*.py"):
        if is_core(path.parent, left):
            rooms[path.parent].append(is_core(path, left))
    assert [str(room.relative_to(TESTS)) for room, kept in sorted(rooms.items()) if not any(kept)] == []


def test_what_core_runs_imports_what_core_installs() -> None:
    left = left_out()
    installed, files = (
        core_distributions(),
        [path for path in TESTS.rglob("*.py") if is_core(path, left) and MADE_BY_A_TEST not in path.name],
    )
    modules = packages_distributions()
    missing = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in files
        for name in imported(path)
        if not installed.intersection(map(normal, modules.get(name, [name])))
    }
    assert missing == set(), "list the file in tests/not_core.txt, or import the package in the test that needs it"


def imported(path: Path) -> set[str]:
    """Return the packages that a file imports when it is loaded, without those of Python and of this project."""
    names: set[str] = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            names.update(each.name.split(".")[0] for each in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names.add(str(node.module).split(".")[0])
    return names - sys.stdlib_module_names - OWN


def core_distributions() -> set[str]:
    """Return what `pip install streamactors[core]` brings, dependencies of dependencies included."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting, found = [*project["dependencies"], "streamactors[core]"], set[str]()
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
            continue
        if wanted.name == "streamactors":
            waiting += [each for extra in wanted.extras for each in project["optional-dependencies"][extra]]
        elif normal(wanted.name) not in found:
            found.add(normal(wanted.name))
            waiting += requires(wanted.name) or ()
    return found


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
