"""A session that the user has made, without one setting of spark_session: its sinks, sources, names and pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Producer

from streamactors.broker import Cluster
from streamactors.spark.session.java import java_home
from tests.docs.pages import ROOT


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_sinks_and_sources_run_in_a_session_of_the_users_own_and_its_progress_names_them(tmp_path: Path) -> None:
    with Cluster() as cluster:
        cluster.create_topic("numbers", 2)
        cluster.create_topic("out", 2)
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers})
        for n in range(6):
            producer.produce("numbers", b"%d" % n, partition=n % 2)
        assert producer.flush(60) == 0
        home = java_home()
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark._own_session", cluster.bootstrap_servers, str(tmp_path)],
            cwd=ROOT,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))},
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                **({} if home is None else {"JAVA_HOME": str(home)}),
            },
            capture_output=True,
            text=True,
            timeout=500,
        )
    lines = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert lines, done.stderr[-4_000:]
    found = json.loads(lines[0].removeprefix("FOUND "))
    every = list(range(6))
    assert (found["parquet"], found["of"], found["topic"], found["frame"]) == (every, every, every, 6)
    assert found["name"] == "SparkSink.parquet topic numbers"
    assert {"SparkSink.parquet topic numbers", "Transactional.sink executors", "frame"} <= found["progress"].keys()
    assert {"SparkSink.parquet topic numbers", "Transactional.sink executors"} <= set(found["jobs"])
    (source,) = found["progress"]["SparkSink.parquet topic numbers"]["sources"]
    end = source["endOffset"]
    positions = json.loads(end) if isinstance(end, str) else end
    assert positions == {"0/numbers-0": 3, "0/numbers-1": 3}, "topics, partitions and positions are in the offsets"
