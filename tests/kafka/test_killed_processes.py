"""Random graphs in processes of their own, killed with -9: nothing that was not stored at every sink was committed, and the next one goes on
until everything has been."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.kafka.test_killed_graphs import Trial, topics  # noqa: F401

COUNT = 100


def run_until(command: list[str], lines: int, trial: Trial) -> bool:
    """Run a child until it has said so many lines, then kill it; return whether it had come to its end."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    ended, said = False, 0
    try:
        for line in process.stdout:
            if line == "end\n":
                ended = True
            elif line.endswith("\n"):
                sink, topic, partition, offset = line.split()
                trial.seen.at.setdefault(sink, set()).add((topic, int(partition), int(offset)))
                said += 1
            if said == lines:
                process.kill()
    finally:
        process.kill()
        process.stdout.close()
        process.wait(30)
    return ended


def go(bootstrap_servers: str, seed: int, way: str, kills: int) -> None:
    trial = Trial(bootstrap_servers, ["first", "second"], COUNT, seed, way)
    dice = random.Random(seed)
    command = [sys.executable, "-m", "tests.kafka._killed_graph", bootstrap_servers, str(seed), way, trial.group]
    command.append(str(COUNT))
    for number in range(kills + 1):
        lines = dice.randint(1, 300) if number < kills else -1
        ended = run_until(command, lines, trial)
        committed = trial.check_commits(f"kill {number}")
        if ended:
            break
    assert ended, trial.described
    assert committed == trial.ends
    trial.check_all()


@pytest.mark.timeout(180)
@pytest.mark.parametrize(("seed", "way"), [(2, "marks"), pytest.param(1, "offsets", marks=pytest.mark.slow)])
def test_a_graph_killed_with_9_loses_nothing(cluster, topics, seed, way):  # noqa: F811
    go(cluster.bootstrap_servers, seed, way, kills=2)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("way", ["marks", "offsets"])
def test_many_graphs_killed_with_9_lose_nothing(cluster, topics, way):  # noqa: F811
    for seed in range(20, 40):
        go(cluster.bootstrap_servers, seed, way, kills=4)
