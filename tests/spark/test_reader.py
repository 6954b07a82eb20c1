"""The reader in Spark's own process: how that process ends."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
from streamactors.spark.bridge.reader import BridgeReader
BridgeReader({{"host": "127.0.0.1", "port": 1, "token": "t"}}).stop()
raise {error}("the end")
"""


@pytest.mark.parametrize(
    ("module", "error", "said"),
    [
        ("pyspark_runner", "BrokenPipeError", ""),
        ("pyspark_runner", "ValueError", "ValueError: the end"),
        ("users_own", "BrokenPipeError", "BrokenPipeError: the end"),
    ],
)
def test_a_process_whose_query_was_stopped_ends_without_a_word_of_the_connection(tmp_path, module, error, said):
    # query.stop() -> Spark hangs up on the process of the reader -> what PySpark reports to nobody was shown on the terminal
    (tmp_path / f"{module}.py").write_text(PROGRAM.format(error=error))
    ended = subprocess.run([sys.executable, "-m", module], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 1
    assert ended.stderr.strip().endswith(said)
    assert bool(ended.stderr.strip()) is bool(said)
