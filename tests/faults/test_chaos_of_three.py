"""A short round of `make chaos`, and one of its planted bugs."""

from __future__ import annotations

import subprocess
import sys

import pytest


def chaos(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.faults.chaos", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_a_round_of_trouble_loses_nothing_and_shows_nothing_twice() -> None:
    done = chaos("--rounds", "1", "--seconds", "25")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.timeout(700)
def test_a_leader_that_does_not_wait_for_its_followers_is_found_out() -> None:
    done = chaos("--rounds", "6", "--seconds", "25", "--bug", "leader-alone")
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "found" in done.stdout
