"""kill -9 of the process, of the JVM, or of both, in every window between Spark and the graph: nothing is lost, and with Parquet nothing is
there twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from confluent_kafka import Producer as BareProducer

from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, MetadataClient
from tests.spark._crash_app import graph, to_the_end

RUN_S = 600.0
N = 2_000
WINDOWS = ["in_graph", "before_fn", "after_fn", "after_commit"]
APP = Path(__file__).with_name("_crash_app.py")


class Crashing:
    """Runs the program again and again on one folder and one topic."""

    def __init__(self, cluster: Cluster, folder: Path, kind: str) -> None:
        self.cluster = cluster
        self.folder = folder
        self.kind = kind
        cluster.create_topic("t", partitions=3)
        producer = BareProducer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5})
        for n in range(N):
            producer.produce("t", json.dumps({"k": f"k{n % 5}", "n": n}), partition=n % 3)
        producer.flush()

    def run(self, window: str = "", after: int = 0, victim: str = "both") -> bool:
        """Run once; return whether it came to its end."""
        command = [sys.executable, str(APP), self.cluster.bootstrap_servers, str(self.folder), self.kind]
        try:
            done = subprocess.run(
                [*command, window, str(after), victim],
                capture_output=True,
                text=True,
                timeout=RUN_S,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            )
        except subprocess.TimeoutExpired as stuck:
            told = (stuck.stderr or b"").decode(errors="replace")
            pytest.fail(f"{window} {after} {victim}: it has neither died nor ended, and stands here:\n{told[-12_000:]}")
        finished = "finished" in done.stdout
        assert done.returncode == (0 if finished else 1 if victim == "jvm" else -signal.SIGKILL), done.stderr[-3_000:]
        if not window:
            assert finished, done.stderr[-3_000:]
        return finished

    def table(self) -> Counter[tuple[str, int]]:
        """Return the rows of the table: its files, without Spark."""
        found = pyarrow.parquet.read_table(self.folder / "table", columns=["k", "n"])
        return Counter(zip(found["k"].to_pylist(), found["n"].to_pylist(), strict=True))

    def plain(self) -> dict[int, list[list[Any]]]:
        """Return what was written per epoch; an epoch that came twice must have brought the same rows."""
        found: dict[int, list[Any]] = {}
        for line in (self.folder / "plain.jsonl").read_text().splitlines():
            epoch, rows = json.loads(line)
            if epoch in found:
                assert sorted(rows) == sorted(found[epoch]), f"epoch {epoch} was repeated with other rows"
            found[epoch] = rows
        return found

    def committed(self) -> int:
        with MetadataClient(ConsumerSettings(self.cluster.bootstrap_servers, group_id="g")) as client:
            return sum(client.committed([("t", i) for i in range(3)]).values())


@pytest.mark.slow
@pytest.mark.timeout(1_200)
def test_a_killed_run_goes_on_with_the_same_batch(spark: Any, tmp_path: Path) -> None:
    """Written, not in the checkpoint yet, kill -9 of all: this process, with another JVM, goes on; per key there is all of it, once."""
    with Cluster() as cluster:
        app = Crashing(cluster, tmp_path, "parquet")
        assert not app.run("after_fn", 2)
        assert app.committed() < N
        (first,) = (tmp_path / "table").glob("query_id=*")
        assert len(list(first.iterdir())) == 2  # the second is there, and comes again
        to_the_end(graph(spark, cluster.bootstrap_servers, tmp_path, "parquet"), RUN_S)
        assert list((tmp_path / "table").glob("query_id=*")) == [first]
        check(app)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("victim", ["both", "self", "jvm"])
@pytest.mark.parametrize("kind", ["parquet", "plain"])
def test_every_window_for_every_victim(tmp_path: Path, kind: str, victim: str) -> None:
    with Cluster(process=True) as cluster:
        app = Crashing(cluster, tmp_path, kind)
        for window in WINDOWS:
            assert not app.run(window, 300 if window == "in_graph" else 1, victim)
        app.run()
        check(app)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("round_", range(50))
def test_fifty_seeded_rounds(tmp_path: Path, round_: int) -> None:
    rng = random.Random(f"{os.environ.get('STREAMACTORS_SEED', '9')}-{round_}")
    with Cluster(process=True) as cluster:
        app = Crashing(cluster, tmp_path, rng.choice(["parquet", "parquet", "plain"]))
        for _ in range(rng.randint(1, 2)):
            window = rng.choice(WINDOWS)
            app.run(
                window,
                rng.randint(1, N) if window == "in_graph" else rng.randint(1, 4),
                rng.choice(["both", "self", "jvm"]),
            )
        app.run()
        check(app)


def check(app: Crashing) -> None:
    truth = Counter((f"k{n % 5}", n) for n in range(N))
    if app.kind == "parquet":
        assert app.table() == truth
    else:
        assert Counter((k, n) for rows in app.plain().values() for k, n in rows) == truth
    assert app.committed() == N
