"""The option `streamactors_probe_timeout` in the settings of a user's tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROBE_WITHOUT_A_SIGNAL = """
import time
import pytest
from streamactors import Source
from streamactors.testing import TestSink

def test_the_probe_gives_up(actor_system):
    began = time.monotonic()
    with pytest.raises(AssertionError, match="nothing came in time"):
        Source.never().run_with(TestSink.probe(), actor_system).expect_next()
    assert time.monotonic() - began < 2
"""


@pytest.mark.slow
@pytest.mark.parametrize(("option", "passes"), [("200ms", True), ("2500ms", False)])
def test_the_option_limits_the_wait_of_a_probe_without_a_timeout(tmp_path: Path, option: str, passes: bool) -> None:
    (tmp_path / "test_one.py").write_text(PROBE_WITHOUT_A_SIGNAL)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\nstreamactors_probe_timeout = {option}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_one.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
    assert (done.returncode == 0) is passes, done.stdout
