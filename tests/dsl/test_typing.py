"""What a type checker knows of the DSL: checked by running mypy over the assertions in `typed.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def mypy(*files: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", *map(str, files)],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return done.stdout + done.stderr


def test_types_are_what_the_assertions_say():
    assert mypy(HERE / "typed.py") == ""


@pytest.mark.expects_exit_code(1)
def test_mistakes_are_seen():
    found = mypy(HERE / "mistyped.py")
    for line, text in enumerate((HERE / "mistyped.py").read_text().splitlines(), 1):
        if "# wrong" in text:
            assert f"mistyped.py:{line}: error" in found, f"line {line} passed: {text}"
        else:
            assert f"mistyped.py:{line}: error" not in found, found


def test_the_stub_is_up_to_date():
    done = subprocess.run(
        [sys.executable, "tools/operator_stubs.py", "--check"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 0, done.stdout + done.stderr
