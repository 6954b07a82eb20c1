"""kill -9 at seeded moments: of processes that run tasks, of executors, of the driver with its JVM. What was written equals the
single-process run."""

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

from tests.spark.executors._killed_task import counted
from tests.spark.executors._plain import in_process, read_rows, write_rows
from tests.spark.executors.test_topic_end import read_topic, rows_of, wanted_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1_800)]
HERE = Path(__file__).parent
KILLS = 100
RUN_S = 300.0
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


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
    """A process that runs the query; `kill` kills it with its JVM, `kill_executor` one of its executors."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, str(HERE / "_killed_query.py"), *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT
        )
        assert self.process.stdout is not None
        self.jvm = int(self.process.stdout.readline())

    def finished(self) -> bool:
        assert self.process.stdout is not None
        return "finished" in self.process.stdout.read()

    def kill(self) -> None:
        for pid in (self.jvm, self.process.pid):
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def kill_executor(self) -> bool:
        executors = [pid for pid in descendants(self.jvm) if b"CoarseGrainedExecutorBackend" in cmdline(pid)]
        if executors:
            os.kill(executors[0], signal.SIGKILL)
        return bool(executors)


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


def until_batches(folder: Path, n: int, query: Query) -> None:
    """Wait until so many batches are in the checkpoint, or the query has ended."""
    deadline = time.monotonic() + RUN_S
    while query.process.poll() is None and time.monotonic() < deadline:
        if len(list((folder / "ck" / "commits").glob("[0-9]*"))) >= n:
            return
        threading.Event().wait(0.02)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("end", ["topic", "parquet"])
def test_a_killed_driver_goes_on_with_the_same_batch(
    cluster: Any, system: Any, tmp_path: Path, end: str, seed: int
) -> None:
    dice = random.Random(seed)
    topic, out = new_topics(cluster, seed, 300)
    arguments = (cluster.bootstrap_servers, topic, out if end == "topic" else "", str(tmp_path), "local[2,4]")
    for n in sorted(dice.sample(range(1, 5), 2)):
        query = Query(*arguments)
        until_batches(tmp_path, n, query)
        threading.Event().wait(dice.random() * 0.4)
        query.kill()
    assert Query(*arguments).finished()
    check(cluster, system, tmp_path, topic, out if end == "topic" else "")


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_executor_costs_nothing(cluster: Any, system: Any, tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    topic, out = new_topics(cluster, 7 + seed, 300)
    query = Query(cluster.bootstrap_servers, topic, out, str(tmp_path), "local-cluster[2,1,512]")
    until_batches(tmp_path, dice.randint(1, 3), query)
    threading.Event().wait(dice.random() * 0.4)
    assert query.kill_executor()
    assert query.finished()
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
