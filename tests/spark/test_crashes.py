"""kill -9 of the process, of the JVM, or of both, in every window between Spark and the graph: nothing is lost, and with Parquet nothing is
there twice."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer as BareProducer

from streamactors.broker import Cluster
from streamactors.kafka import ConsumerSettings, MetadataClient

RUN_S = 300.0
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
        done = subprocess.run(
            [
                sys.executable,
                str(APP),
                self.cluster.bootstrap_servers,
                str(self.folder),
                self.kind,
                window,
                str(after),
                victim,
            ],
            capture_output=True,
            text=True,
            timeout=RUN_S,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        finished = "finished" in done.stdout
        if not window:
            assert finished, done.stderr[-3_000:]
        return finished

    def table(self, spark: Any) -> Counter[int]:
        return Counter(row.n for row in spark.read.parquet(str(self.folder / "table")).collect())

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
@pytest.mark.timeout(900)
def test_a_killed_run_goes_on_with_the_same_batch(tmp_path: Path) -> None:
    """The smoke test of the rounds below: written, not committed, killed."""
    with Cluster(process=True) as cluster:
        app = Crashing(cluster, tmp_path, "plain")
        assert not app.run("after_fn", 2)
        app.run()
        rows = [n for rows in app.plain().values() for _, n in rows]
        assert sorted(rows) == list(range(N))
        assert app.committed() == N


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", ["parquet", "plain"])
def test_every_window_for_every_victim(spark: Any, tmp_path: Path, kind: str) -> None:
    with Cluster(process=True) as cluster:
        app = Crashing(cluster, tmp_path, kind)
        for victim in ("both", "self", "jvm"):
            for window in WINDOWS:
                app.run(window, 300 if window == "in_graph" else 1, victim)
        app.run()
        check(app, spark)


@pytest.mark.slow
@pytest.mark.timeout(14_400)
def test_fifty_seeded_rounds(spark: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("STREAMACTORS_SEED", "9"))
    for round_ in range(50):
        rng = random.Random(f"{seed}-{round_}")
        folder = tmp_path / str(round_)
        folder.mkdir()
        kind = rng.choice(["parquet", "parquet", "plain"])
        with Cluster(process=True) as cluster:
            app = Crashing(cluster, folder, kind)
            for _ in range(rng.randint(1, 2)):
                window = rng.choice(WINDOWS)
                app.run(
                    window,
                    rng.randint(1, N) if window == "in_graph" else rng.randint(1, 4),
                    rng.choice(["both", "self", "jvm"]),
                )
            app.run()
            check(app, spark)


def check(app: Crashing, spark: Any) -> None:
    if app.kind == "parquet":
        assert app.table(spark) == Counter(range(N))
    else:
        assert Counter(n for rows in app.plain().values() for _, n in rows) == Counter(range(N))
    assert app.committed() == N
