"""A test in a process of its own: for tests that count the threads, descriptors, memory or CPU time of the whole process.

In a shared process a count is changed by others at any moment: a thread of an earlier test ends, its garbage closes a file. `pytest` runs
once more, in a new interpreter and for this test alone, with the test's fixtures. `tools/repeat_tests.py` runs these tests many times."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from functools import update_wrapper
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
INSIDE = "STREAMACTORS_TEST_IN_ITS_OWN_PROCESS"


def own_process(test: Callable[..., None]) -> Callable[..., None]:
    """Run `test` in a process of its own. Stands above every `parametrize`; fixtures are set up in that process only."""
    if INSIDE in os.environ:
        return test
    parametrized = [mark.args[0] for mark in getattr(test, "pytestmark", ()) if mark.name == "parametrize"]
    names = [name.strip() for given in parametrized for name in (given.split(",") if isinstance(given, str) else given)]

    def apart(**_: Any) -> None:
        node = os.environ["PYTEST_CURRENT_TEST"].rpartition(" ")[0]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:randomly", node],
            cwd=ROOT,
            env={**environment, INSIDE: "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            pytest.fail(f"in a process of its own:\n{done.stdout}{done.stderr}", pytrace=False)

    update_wrapper(apart, test)
    del apart.__wrapped__  # type: ignore[attr-defined]  # pytest would take its parameters
    apart.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in names]
    )
    return pytest.mark.whole_process(apart)
