"""A test in a process of its own: for tests that count the threads, descriptors, memory or CPU time of the whole process.

In a shared process a count is changed by others at any moment: a thread of an earlier test ends, its garbage closes a file. `pytest` runs
once more, for this test alone and with the test's fixtures, in a child of a process that has only imported (`warm_process.py`).
`tools/repeat_tests.py` runs these tests many times."""

from __future__ import annotations

import atexit
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
INSIDE = "STREAMACTORS_TEST_IN_ITS_OWN_PROCESS"

_warm: list[subprocess.Popen[str]] = []
"""The process that forks; none before the first test needs it."""


def _end() -> None:
    while _warm:
        with _warm.pop() as process:  # its child, which runs a test, holds the input open: it goes as well
            os.killpg(process.pid, signal.SIGKILL)


def run_apart(node: str, environment: dict[str, str]) -> tuple[int, str]:
    """Run one test in a process of its own; return pytest's exit code and what it printed."""
    if not _warm:
        command = [sys.executable, "-m", "tests.warm_process"]
        pipe = subprocess.PIPE
        _warm.append(subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True, start_new_session=True))
        atexit.register(_end)
    with tempfile.NamedTemporaryFile("r", prefix="own-process-") as output:
        asked, answers = _warm[0].stdin, _warm[0].stdout
        assert asked is not None
        assert answers is not None
        try:
            asked.write(json.dumps({"node": node, "environment": environment, "output": output.name}) + "\n")
            asked.flush()
            answer = answers.readline()
            assert answer, f"the process that forks for {node} has ended"
        except BaseException:  # a limit of time: the next test must not read the answer of this one
            _end()
            raise
        return int(answer), output.read()


def own_process(test: Callable[..., None]) -> Callable[..., None]:
    """Run `test` in a process of its own. Stands above every `parametrize`; fixtures are set up in that process only."""
    if INSIDE in os.environ:
        return test
    parametrized = [mark.args[0] for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    names = [name.strip() for given in parametrized for name in (given.split(",") if isinstance(given, str) else given)]

    def apart(**_: Any) -> None:
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        code, printed = run_apart(node, {**environment, INSIDE: "1"})
        if code:
            pytest.fail(f"in a process of its own:\n{printed}", pytrace=False)

    update_wrapper(apart, test)
    del apart.__wrapped__  # type: ignore[attr-defined]  # pytest would take its parameters
    apart.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return pytest.mark.whole_process(apart)
