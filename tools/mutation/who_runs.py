"""Which tests run a function: recorded once per test file, kept in out/mutants, recorded again when the test file has changed.

A product file may change after the recording: functions are found by name, so lines may move. `hash_of` covers the test file only."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

KEPT = "out/mutants"
FAST = "not slow and not compat and not differential"
READERS = ("tests/test_structure.py", "tests/test_durations.py", "tests/docs/test_docs_house.py")
"""Tests that read the text of the product. They do not notice what it does."""


@dataclass(frozen=True)
class Test:
    """One test, with its duration while it was recorded. A test without `::` is a whole file."""

    name: str
    seconds: float

    @property
    def file(self) -> str:
        """The test file."""
        return self.name.split("::")[0]


class WhoRuns:
    """For each function the tests that run it."""

    def __init__(self, root: Path) -> None:
        self.tests: dict[str, Test] = {}
        self.of_function: dict[str, set[str]] = {}
        self.at_import: set[str] = set()
        self.of_file: dict[str, set[str]] = {}
        for path in sorted((root / KEPT).glob("*.json")):
            self._read(path, root)

    def _read(self, path: Path, root: Path) -> None:
        file = path.name.removesuffix(".json").replace("+", "/")
        if not (root / file).exists():
            return
        found = json.loads(path.read_text())
        functions = found["functions"]
        self.at_import.update(functions[at] for at in found["<import>"])
        green = {name: entry for name, entry in found["tests"].items() if entry[1]}
        for name, (seconds, _, keys) in green.items():
            self.tests[name] = Test(name, seconds)
            for at in keys:
                self._add(functions[at], name)
        if green and found["<children>"]:
            self.tests[file] = Test(file, sum(entry[0] for entry in green.values()))
            for at in found["<children>"]:
                self._add(functions[at], file)

    def _add(self, function: str, test: str) -> None:
        self.of_function.setdefault(function, set()).add(test)
        self.of_file.setdefault(function.split(":")[0], set()).add(test)

    def of(self, file: str, function: str) -> list[Test]:
        """Return the tests that run the function; where none is recorded, the tests that run anything of the file.

        Module level is run by all tests of the file, and so is a function that runs at import. A function without a test may be newer
        than the recording."""
        inner = self.of_function.get(f"{file}:{function}") if function else None
        return [self.tests[name] for name in inner or self.of_file.get(file, set())]

    def runs_at_import(self, file: str, function: str) -> bool:
        """Return True for a function that has run before the first test."""
        return f"{file}:{function}" in self.at_import


def stale(root: Path) -> list[str]:
    """Return the test files that are not recorded, or have changed since."""
    out = []
    for path in sorted((root / "tests").rglob("test_*.py")):
        file = str(path.relative_to(root))
        told = root / KEPT / (file.replace("/", "+") + ".hash")
        if file not in READERS and not (told.exists() and told.read_text() == _hash(path)):
            out.append(file)
    return out


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def record(root: Path, tree: Path, files: list[str]) -> None:
    """Run these test files in the tree and keep what they run. The recorder writes a file for each of them as soon as its tests are through."""
    if not files:
        return
    kept = root / KEPT
    kept.mkdir(parents=True, exist_ok=True)
    hits = tree / "out" / "hits"
    hits.mkdir(parents=True, exist_ok=True)
    for file in files:
        for ending in (".json", ".hash"):
            (kept / (file.replace("/", "+") + ending)).unlink(missing_ok=True)
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(str(tree / part) for part in ("tools/mutation/child", "tools", ".")),
        "PYTHONPYCACHEPREFIX": str(root / KEPT / "bytecode"),
        "MUTATION_HITS": str(hits),
        "MUTATION_OUT": str(kept),
        "MUTATION_PARENT": "yes",
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "mutation.recorder", "-p", "no:randomly", "-p", "no:xdist"]
    command += ["-p", "no:cacheprovider", "--timeout", "120", "-m", FAST, *files]
    if subprocess.run(command, cwd=tree, env=environment).returncode in (0, 1, 5):
        for file in files:  # a file of which no test is fast has left nothing
            told = kept / (file.replace("/", "+") + ".hash")
            if not told.exists():
                told.write_text(_hash(root / file))
