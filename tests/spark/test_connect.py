"""Spark Connect: flows on DataFrames, topics as tables, and sources as streaming DataFrames work over it; what needs a JVM in this process is refused.

The client of Spark Connect needs packages that nothing else here needs. They are installed into an environment in the temporary folder at the
first use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from streamactors.broker import Cluster
from tests.spark.executors._plain import write_rows

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_200)]
PROGRAM = Path(__file__).with_name("_connect_program.py")
CLIENT = ("grpcio", "grpcio-status", "googleapis-common-protos", "zstandard")
HOME = Path(tempfile.gettempdir()) / f"streamactors-spark-connect-{os.getuid()}"
MAKE_S = 600


def python() -> str:
    """Return the Python of an environment with the client's packages."""
    made = HOME / "bin" / "python"
    if not (HOME / "complete").exists():
        subprocess.run([sys.executable, "-m", "venv", str(HOME)], check=True, capture_output=True, timeout=MAKE_S)
        install = [str(made), "-m", "pip", "install", "-q", *CLIENT]
        subprocess.run(install, check=True, capture_output=True, timeout=MAKE_S)
        (HOME / "complete").touch()
    return str(made)


def test_flows_topics_and_sources_work_over_spark_connect(tmp_path: Path) -> None:
    program = python()
    paths = [str(next(HOME.glob("lib/python*/site-packages"))), *filter(None, sys.path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYSPARK_PYTHON": program}
    with Cluster() as cluster:
        write_rows(cluster, "t", [(i % 2, f"k{i}", i, i) for i in range(20)])
        cluster.create_topic("o", partitions=1)
        done = subprocess.run(
            [program, str(PROGRAM), cluster.bootstrap_servers, "t", "o", str(tmp_path)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr
    rows, records, written, streamed, refused = json.loads(done.stdout.splitlines()[-1])
    assert rows == [[4, "k2"], [6, "k3"], [8, "k4"]]
    assert (records, written, streamed) == (20, 20, 20)
    executors, sink, source, streaming_source, expressions, graph_format = refused
    assert "SparkExecutors: a session of Spark Connect has no JVM in this process" in executors
    assert "Spark Connect runs foreachBatch in a process of the server" in sink
    assert "SparkSource.of: this DataFrame is of Spark Connect" in source
    assert "SparkSource.of_stream: this DataFrame is of Spark Connect" in streaming_source
    assert "on_spark: this DataFrame is of Spark Connect" in expressions
    assert "over Spark Connect the server would import the module of the source" in graph_format
