"""pytest plugin: writes for each test file which functions of the product its tests run, and how long each test takes.

One file per test file, so a stopped recording goes on where it was, and a test file that changes is recorded alone."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mutation import hits

AT_IMPORT = "<import>"
IN_CHILDREN = "<children>"

_functions: dict[str, set[str]] = {}
_seconds: dict[str, float] = {}
_green: dict[str, bool] = {}
_now = [AT_IMPORT]


def _listener(key: str) -> None:
    _functions.setdefault(_now[0], set()).add(key)


hits.install(_listener)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    _now[0] = item.nodeid
    hits.SEEN.clear()
    start = time.monotonic()
    yield
    _seconds[item.nodeid] = round(time.monotonic() - start, 3)
    file = item.nodeid.split("::")[0]
    if nextitem is None or nextitem.nodeid.split("::")[0] != file:
        _write(file)


def pytest_runtest_logreport(report: Any) -> None:
    passed = report.passed
    _green[report.nodeid] = _green.get(report.nodeid, True) and passed


def _write(file: str) -> None:
    children: set[str] = set()
    for path in Path(os.environ["MUTATION_HITS"]).iterdir():
        children.update(line for line in path.read_text().splitlines() if line.startswith("streamactors/"))
        path.unlink()
    # Copies: threads that a test has left behind may still run functions.
    of_file = {test: set(keys) for test, keys in list(_functions.items()) if test.split("::")[0] == file}
    at_import = set(_functions.get(AT_IMPORT, ()))
    names = sorted(at_import.union(children, *of_file.values()))
    number = {name: at for at, name in enumerate(names)}
    tests = {
        test: [_seconds[test], _green.get(test, False), sorted(number[key] for key in of_file.get(test, ()))]
        for test in _seconds
        if test.split("::")[0] == file
    }
    out = {
        "functions": names,
        "tests": tests,
        AT_IMPORT: sorted(number[key] for key in at_import),
        IN_CHILDREN: sorted(number[key] for key in children),
    }
    target = Path(os.environ["MUTATION_OUT"]) / (file.replace("/", "+") + ".json")
    target.with_suffix(".part").write_text(json.dumps(out, separators=(",", ":")))
    target.with_suffix(".part").rename(target)
    target.with_suffix(".hash").write_text(hashlib.sha256(Path(file).read_bytes()).hexdigest())
    for test in of_file:
        del _functions[test]
