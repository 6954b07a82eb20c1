"""The seed decides the order, and nothing else does: not the process, its hash seed, or what ran before."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from streamactors import ActorSystem, Sink, Source
from streamactors.simulation.world.simulated import SimulatedWorld
from tests.simulation.world.traces import digest

ROOT = Path(__file__).resolve().parents[3]


def _in_a_process(seeds: int, hash_seed: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation.world.traces", str(seeds)],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip


def test_200_seeds_have_equal_traces_in_two_interpreters_with_two_hash_seeds() -> None:
    first = _in_a_process(200, "1")
    assert len(set(first.splitlines())) == 200
    assert first == _in_a_process(200, "2")


def test_a_seed_has_the_same_trace_after_other_runs_in_the_process() -> None:
    seeds = list(range(40))
    forward, backward = digest(seeds), digest(seeds[::-1])
    assert forward == {seed: backward[seed] for seed in seeds}


LOG = logging.getLogger("tests.simulation")


def _logging(level: int) -> list[list[str]]:
    def main() -> None:
        with ActorSystem("logs") as system:
            told = Source.range(0, 30).map_async_unordered(4, lambda x: LOG.warning("element %d", x) or time.sleep(0))
            told.run_with(Sink.ignore(), system).result()

    worlds = [SimulatedWorld(seed) for seed in range(30)]
    LOG.setLevel(level)
    for world in worlds:
        world.run(main)
    return [world.trace.lines() for world in worlds]


def test_whether_lines_are_logged_changes_no_trace() -> None:
    assert _logging(logging.WARNING) == _logging(logging.CRITICAL)


def _order(seed: int) -> list[int]:
    done: list[int] = []

    def work(number: int) -> None:
        for _ in range(3):
            done.append(number)
            time.sleep(0)

    def main() -> None:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    SimulatedWorld(seed).run(main)
    return done


def test_other_seeds_have_other_orders() -> None:
    assert len({tuple(_order(seed)) for seed in range(60)}) >= 30


def _made(seed: int, lines: float, *, wait: bool = False) -> int:
    """Two tasks look whether a key is there, and add it."""
    made: list[int] = []

    def main() -> None:
        cache: dict[str, int] = {}

        def get() -> None:
            if "key" not in cache:
                if wait:
                    time.sleep(0)
                cache["key"] = 1
                made.append(1)

        threads = [threading.Thread(target=get) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    SimulatedWorld(seed, lines=lines).run(main)
    return len(made)


def test_a_race_between_looking_and_acting_is_found_when_there_is_a_wait_in_it() -> None:
    assert {_made(seed, 0, wait=True) for seed in range(40)} == {1, 2}


def test_a_race_without_a_wait_is_found_between_lines() -> None:
    assert {_made(seed, 0.2) for seed in range(60)} == {1, 2}
    assert {_made(seed, 0) for seed in range(60)} == {1}
