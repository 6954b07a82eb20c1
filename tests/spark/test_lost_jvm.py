"""A JVM that dies is reported in a sentence, whatever the program was doing with it. Each case is a program of its own, whose JVM is killed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

JVM_GONE = "Spark's JVM has ended, and PySpark cannot start another in this process; start the program again"
PROGRAM = Path(__file__).with_name("_lost_jvm.py")
RUN_S = 400.0
pytestmark = pytest.mark.timeout(600)


def error_of(kind: str, folder: Path) -> str:
    command = [sys.executable, str(PROGRAM), kind, str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout.strip()


@pytest.mark.parametrize("kind", [pytest.param("into_a_topic", marks=pytest.mark.slow), "foreach_batch"])
def test_a_query_whose_jvm_dies_fails_with_the_way_out(tmp_path: Path, kind: str) -> None:
    """The function's call to Spark failed first, and its Py4JNetworkError was the query's error."""
    told = error_of(kind, tmp_path)
    assert told == f"SparkQueryFailed: {JVM_GONE}; its graph continues from the checkpoint"


@pytest.mark.parametrize("kind", ["of", pytest.param("of_stream", marks=pytest.mark.slow)])
def test_a_stream_of_rows_whose_jvm_dies_fails_with_a_sentence(tmp_path: Path, kind: str) -> None:
    assert error_of(kind, tmp_path).startswith(f"SparkQueryFailed: {JVM_GONE}")


@pytest.mark.slow
def test_a_sink_or_a_session_that_is_made_when_the_jvm_has_died_is_refused_with_the_way_out(tmp_path: Path) -> None:
    """Py4J's own errors came from another session, stopped or not."""
    told = error_of("afterwards", tmp_path).splitlines()
    assert told == [f"SparkSetupError: {JVM_GONE}"] * 3
