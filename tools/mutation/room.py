"""A copy of the checkout in which one mutant at a time is put in place and the tests that run it are run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from mutation.changes import Mutant, text_with
from mutation.who_runs import FAST, Test, WhoRuns

FIRST_S = 4.0
"""Seconds of tests that run at first. Most mutants are killed by them, and the other test files are not even collected."""

TABLES = {
    "tests/dsl/test_public_api.py": "streamactors/",
    "tests/broker/test_docs.py": "streamactors/broker/",
    "tests/broker/test_own_requests.py": "streamactors/broker/",
}
"""Tests that compare the defaults, numbers and signatures of these folders with a page or a list. They run no function of the files."""


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: the test that killed it, or None; `tests` of `known` tests were run."""

    killer: str | None
    hung: bool
    tests: int
    known: int


class ServerEnded(RuntimeError):
    """A server has ended, although it only forks. Tests of this batch count for nothing."""


class Room:
    """One tree with its two servers. `verdict` is not for several threads at a time."""

    def __init__(self, root: Path, folder: Path, who: WhoRuns) -> None:
        self.folder, self._who = folder, who
        copy_tree(root, folder)
        # before the first mutant is in place: the hot server imports the product
        self._servers = {kind: self._start(kind) for kind in ("hot", "cold")}
        self._green: dict[tuple[str, str], bool] = {}
        self._stamp = 1_000_000_000

    def close(self) -> None:
        """End the servers."""
        for server in self._servers.values():
            server.kill()
            server.wait()

    def verdict(self, mutant: Mutant, limit_s: float) -> Verdict:
        """Run the tests that run the changed function, nearest and shortest first, at most `limit_s` of them."""
        original = (self.folder / mutant.file).read_text()
        text = text_with(mutant, original)
        tests = self._who.of(mutant.file, mutant.function) or of_users(self._who, mutant.file, self.folder)
        if not mutant.function:  # a table may be read by tests that run no function of its file
            tests = list(
                {test.name: test for test in (*tests, *nearest_by_name(self._who, mutant.file, self.folder))}.values()
            )
        batches = batches_of(tests, mutant.file, self.folder, limit_s)
        run = 0
        kind = "cold" if not mutant.function or self._who.runs_at_import(mutant.file, mutant.function) else "hot"
        while batches:
            batch = batches.pop(0)
            try:
                got = self._with(mutant, text, kind, batch)
                if got["how"] == "swap":
                    kind = "cold"
                    got = self._with(mutant, text, kind, batch)
            except ServerEnded as error:
                print(f"     {error}", flush=True)
                self._servers[kind] = self._start(kind)  # the mutant is not in place any more
                continue
            run += len(batch)
            if got["how"] == "hung" and got["test"] and self._is_green(got["test"], kind, again=True):
                return Verdict(got["test"], True, run, len(tests))
            if got["how"] == "failed" and self._is_green(got["test"] or batch[0].name, kind):
                return Verdict(got["test"] or "collection", False, run, len(tests))
            if got["how"] == "broken" and self._ask(kind, None, "", batch)["how"] == "passed":
                return Verdict(f"the process ended ({got['test']})", False, run, len(tests))
            if got["how"] in ("hung", "failed") and (rest := behind(got["test"], batch)):
                run -= len(rest)
                batches.insert(0, rest)
        return Verdict(None, False, run, len(tests))

    def _with(self, mutant: Mutant, text: str, kind: str, batch: list[Test]) -> dict[str, Any]:
        """Processes that a test starts read the changed file. Its time differs from mutant to mutant, or old bytecode would be taken for it."""
        target = self.folder / mutant.file
        times = target.stat()
        original = target.read_text()
        target.write_text(text)
        self._stamp += 1
        os.utime(target, (self._stamp, self._stamp))
        try:
            return self._ask(kind, mutant, text, batch)
        finally:
            target.write_text(original)
            os.utime(target, ns=(times.st_atime_ns, times.st_mtime_ns))

    def _is_green(self, test: str, kind: str, *, again: bool = False) -> bool:
        """Return True when the test passes without the mutant. After a time limit it runs again each time: the machine may be slow."""
        key = (test, kind)
        if again or key not in self._green:
            known = self._who.tests.get(test, Test(test, 1.0))
            self._green[key] = self._ask(kind, None, "", [known])["how"] == "passed"
            if not self._green[key]:
                print(f"     fails without a mutant and counts for nothing: {test}", flush=True)
        return self._green[key]

    def _ask(self, kind: str, mutant: Mutant | None, text: str, batch: list[Test]) -> dict[str, Any]:
        server = self._servers[kind]
        assert server.stdin
        assert server.stdout
        command = {
            "file": mutant.file if mutant else "",
            "function": mutant.function if mutant else "",
            "text": text,
            "tests": {test.name: 10 * test.seconds for test in batch},
            "marks": FAST,
        }
        print(json.dumps(command), file=server.stdin, flush=True)
        line = server.stdout.readline()
        if not line:
            code = server.wait()
            raise ServerEnded(
                f"the {kind} server has ended with {code}: {(self.folder / 'server.log').read_text()[-800:]}"
            )
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _start(self, kind: str) -> subprocess.Popen[str]:
        environment = os.environ | {"PYTHONPATH": f"{self.folder / 'tools'}{os.pathsep}{self.folder}"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # rewritten tests are kept for the next child
        with open(self.folder / "server.log", "a") as log:
            server = subprocess.Popen(
                [sys.executable, "-m", "mutation.server", kind],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        assert server.stdout
        assert server.stdout.readline() == "ready\n"
        return server


def copy_tree(root: Path, folder: Path) -> None:
    """Copy what the tests need."""
    for name in ("streamactors", "tests", "docs", "examples", "benchmarks", "tools"):
        shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "Makefile", ".importlinter"):
        shutil.copy(root / name, folder / name)


def batches_of(tests: list[Test], file: str, root: Path, limit_s: float) -> list[list[Test]]:
    """Return the tests in two batches, nearest and shortest first. Together they took at most `limit_s` when they were recorded."""
    ordered = sorted(
        tests, key=lambda test: (distance(test.file, file, root), "::" not in test.name, test.seconds, test.name)
    )
    first: list[Test] = []
    then: list[Test] = []
    spent = 0.0
    for test in ordered:
        if spent + test.seconds > limit_s and (first or then):
            continue
        (first if spent + test.seconds <= FIRST_S and len(first) < 60 else then).append(test)
        spent += test.seconds
    return [_by_file(batch) for batch in (first, then) if batch]


def behind(test: str, batch: list[Test]) -> list[Test]:
    """Return the tests of a batch that follow this one, which ended it."""
    at = next((at for at, each in enumerate(batch) if each.name in (test, test.split("::")[0])), len(batch))
    return batch[at + 1 :]


def _by_file(batch: list[Test]) -> list[Test]:
    """Keep the order of the files, and let the tests of a file follow each other: they share its broker."""
    files = {test.file: at for at, test in reversed(list(enumerate(batch)))}
    return sorted(batch, key=lambda test: files[test.file])


def distance(test: str, file: str, root: Path) -> int:
    """Return 0 for a test file that is named after the changed file, 1 if it imports the file or compares its tables, 2 in the folder that
    mirrors its package, else 3."""
    path = Path(file)
    mirror = Path("tests", *path.parent.parts[1:])
    while not (root / mirror).is_dir():
        mirror = mirror.parent
    stem = path.stem.strip("_").removesuffix("_state").removesuffix("_stage")
    near = test.startswith(f"{mirror}/")
    if len(stem) > 3 and stem in Path(test).stem and near:
        return 0
    if _imports(root, file, test) or file.startswith(TABLES.get(test, "nothing")):
        return 1
    return 2 if near else 3


@cache
def _imports(root: Path, file: str, test: str) -> bool:
    module = ".".join(Path(file).with_suffix("").parts).removesuffix(".__init__")
    package, name = module.rsplit(".", 1)
    imports = rf"from {re.escape(module)} import|from {re.escape(package)} import [^\n]*\b{name}\b|import {re.escape(module)}\b"
    return re.search(imports, (root / test).read_text()) is not None


def of_users(who: WhoRuns, file: str, root: Path) -> list[Test]:
    """Return the tests that run a file of the product that imports this one, of which no test runs a function."""
    users = (
        path for path in (root / "streamactors").rglob("*.py") if _imports(root, file, str(path.relative_to(root)))
    )
    return list({test.name: test for path in users for test in who.of(str(path.relative_to(root)), "")}.values())


def nearest_by_name(who: WhoRuns, file: str, root: Path) -> list[Test]:
    """Return the tests of files that are named after a file of the product, import it or compare its tables."""
    return [test for test in who.tests.values() if "::" in test.name and distance(test.file, file, root) <= 1]
