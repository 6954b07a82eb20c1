"""kill -9 at seeded moments: a hundred of processes that run tasks, and twenty of what a query in Spark needs: driver, JVM, executors, workers,
broker. What was written equals the single-process run."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

from streamactors.broker.wire_request import create_topic
from streamactors.demo.killing.standalone import HOST, Standalone
from tests.faults.broker_process import BrokerProcess
from tests.spark.executors._killed_task import counted
from tests.spark.executors._plain import in_process, read_rows, write_rows
from tests.spark.executors.test_topic_end import read_topic, rows_of, wanted_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
HERE = Path(__file__).parent
KILLS = 100
RUN_S = 300.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


class Address:
    """A broker elsewhere, with what these tests ask of a cluster."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def create_topic(self, name: str, partitions: int) -> None:
        create_topic(self.bootstrap_servers, name, partitions, {})


def new_topics(cluster: Any, seed: int, n: int) -> tuple[str, str]:
    topic, out = f"t{uuid.uuid4().hex[:8]}", f"o{uuid.uuid4().hex[:8]}"
    write_rows(cluster, topic, rows_of(seed, n))
    cluster.create_topic(out, partitions=2)
    return topic, out


def test_a_hundred_kills_of_tasks_in_plain_processes(cluster: Any, system: Any, tmp_path: Path) -> None:
    dice = random.Random(19)
    kills = 0
    errors = tmp_path / "stderr"
    with (
        open(errors, "w") as stderr,
        subprocess.Popen(
            [sys.executable, str(HERE / "_killed_task.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=ENVIRONMENT,
        ) as zygote,
    ):
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        while kills < KILLS:
            topic, out = new_topics(cluster, kills, 80)
            folder = tmp_path / topic
            folder.mkdir()
            ends = {p: sum(row[0] == p for row in rows_of(kills, 80)) for p in (0, 1)}
            (folder / "ends.json").write_text(json.dumps(ends))
            code = 9
            while code:
                after = dice.randint(1, 30) if kills < KILLS else 0
                zygote.stdin.write(json.dumps([cluster.bootstrap_servers, topic, out, str(folder), after]) + "\n")
                zygote.stdin.flush()
                code = int(zygote.stdout.readline())
                assert code in (0, 9), errors.read_text()[-3_000:]
                kills += code == 9
            assert read_topic(cluster, out) == wanted_of(system, cluster, topic), f"after {kills} kills"
        zygote.stdin.close()


class Query:
    """A process that runs the query; `kill` kills it, its JVM or both, `kill_executor` one of its executors."""

    def __init__(
        self, cluster: Any, topic: str, out: str, folder: Path, master: str, how: str = "", *more: str
    ) -> None:
        arguments = (cluster.bootstrap_servers, topic, out, str(folder), master, how, *more)
        self.folder = folder
        self._log = folder / "stderr.log"
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(HERE / "_killed_query.py"), *arguments],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=ENVIRONMENT,
            )
        assert self.process.stdout is not None
        self.jvm = int(self.process.stdout.readline() or 0)
        assert self.jvm, self.told()

    def finish(self) -> None:
        """Wait for the query's end. Fails with what the process said if it ended otherwise."""
        assert self.process.stdout is not None
        assert "finished" in self.process.stdout.read(), self.told()
        self.process.wait()

    def told(self) -> str:
        return self._log.read_text(errors="replace")[-5_000:]

    def kill(self, victim: str = "both") -> None:
        """Kill with -9. A driver whose JVM is gone ends by itself, and a JVM whose driver is gone, too."""
        if victim in ("jvm", "both"):
            os.kill(self.jvm, signal.SIGKILL)
        if victim in ("driver", "both"):
            self.process.kill()
        code = self.process.wait()
        assert code in (0, 1, -signal.SIGKILL), self.told()  # 0: the query had ended; 1: its JVM is gone

    def kill_executor(self) -> bool:
        executors = [pid for pid in descendants(self.jvm) if b"CoarseGrainedExecutorBackend" in cmdline(pid)]
        if executors:
            os.kill(executors[0], signal.SIGKILL)
        return bool(executors)

    def until_batches(self, n: int) -> None:
        """Wait until so many batches are in the checkpoint, or the query has ended."""
        deadline = time.monotonic() + RUN_S
        while self.process.poll() is None and time.monotonic() < deadline:
            if len(list((self.folder / "ck" / "commits").glob("[0-9]*"))) >= n:
                return
            threading.Event().wait(0.02)


def cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def descendants(pid: int) -> Iterator[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    children: list[str] = []
    for task in tasks:
        with contextlib.suppress(OSError):  # a thread that ended in between has no children
            children += (task / "children").read_text().split()
    for child in dict.fromkeys(map(int, children)):
        yield child
        yield from descendants(child)


@pytest.mark.parametrize(
    ("victim", "end", "seed"),
    [(victim, end, seed) for seed, victim in enumerate(("both", "driver", "jvm")) for end in ("topic", "parquet")],
)
def test_a_killed_driver_goes_on_with_the_same_batch(
    cluster: Any, system: Any, tmp_path: Path, victim: str, end: str, seed: int
) -> None:
    """Twelve kills. Each run of a query has another master than the run before; a local cluster, whose executors are processes, ends a topic."""
    dice = random.Random(seed)
    topic, out = new_topics(cluster, seed, 300)
    out = out if end == "topic" else ""
    masters = ["local[2,4]", "local-cluster[2,1,512]" if out else "local[1,4]"]
    for n, master in zip(sorted(dice.sample(range(1, 5), 2)), masters, strict=True):
        query = Query(cluster, topic, out, tmp_path, master)
        query.until_batches(n)
        threading.Event().wait(dice.random() * 0.4)
        query.kill(victim)
    Query(cluster, topic, out, tmp_path, "local[1,4]" if out else "local[2,4]").finish()
    check(cluster, system, tmp_path, topic, out)


def test_three_killed_executors_cost_nothing(cluster: Any, system: Any, tmp_path: Path) -> None:
    """One query of ten batches loses an executor in each of three of them; the cluster starts another each time."""
    dice = random.Random(3)
    topic, out = new_topics(cluster, 7, 600)
    query = Query(cluster, topic, out, tmp_path, "local-cluster[2,1,512]")
    for n in (1, 3, 5):
        query.until_batches(n)
        threading.Event().wait(dice.random() * 0.4)
        assert query.kill_executor()
    query.finish()
    check(cluster, system, tmp_path, topic, out)


def test_two_of_three_workers_that_are_killed_cost_nothing(cluster: Any, system: Any, tmp_path: Path) -> None:
    """A worker takes its executor with it. The last one runs the rest of the query."""
    topic, out = new_topics(cluster, 17, 600)
    with Standalone(tmp_path / "spark", (HOST, HOST, HOST)) as spark:
        query = Query(cluster, topic, out, tmp_path, spark.url)
        for n in (1, 3):
            query.until_batches(n)
            spark.kill_worker()
        query.finish()
    check(cluster, system, tmp_path, topic, out)


def test_a_broker_that_is_killed_three_times_costs_nothing(system: Any, tmp_path: Path) -> None:
    with BrokerProcess(tmp_path / "broker") as broker:
        cluster = Address(broker.bootstrap_servers)
        topic, out = new_topics(cluster, 23, 300)
        query = Query(cluster, topic, out, tmp_path, "local[2,4]")
        for n in (1, 2, 3):
            query.until_batches(n)
            broker.kill()
            broker.start()
        query.finish()
        check(cluster, system, tmp_path, topic, out)


def check(cluster: Any, system: Any, folder: Path, topic: str, out: str) -> None:
    """Compare what was written with the single-process run, in order per partition."""
    if out:
        assert read_topic(cluster, out) == wanted_of(system, cluster, topic)
        return
    table = pyarrow.parquet.read_table(folder / "table")
    rows = sorted(table.to_pylist(), key=lambda row: (row["epoch_id"], row["part"]))
    found: dict[int, list[Any]] = {}
    for row in rows:
        found.setdefault(row["part"], []).append((row["key"], row["start"], row["n"], row["offset"]))
    wanted = in_process(system, counted, read_rows(cluster, topic))
    assert found == {
        part: [(row[1], row[2], row[5], row[7].offset) for row in rows] for part, rows in wanted.results.items()
    }
