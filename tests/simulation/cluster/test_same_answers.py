"""The same random histories of calls on real clients of a real broker, and on simulated ones: every call must return the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

import pytest

from streamactors.broker import Cluster
from tests.simulation.cluster import group_history, reading_history, transaction_history
from tests.simulation.cluster.sides import Real, Simulated

AT_A_TIME = 12
"""Histories that real clients play at the same time: they mostly wait."""


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    with Cluster(config=group_history.BY_BROKER) as cluster:
        yield cluster.bootstrap_servers


def differences(servers: str, kind: Any, seeds: Iterable[int]) -> list[str]:
    """Return what the two sides answered differently."""
    sides: SimpleQueue[Real] = SimpleQueue()
    for _ in range(AT_A_TIME):
        sides.put(Real(servers))

    def play(side: Any, seed: int) -> Any:
        player = kind.Player(side, str(seed))
        try:
            return player.play(kind.history(seed))
        finally:
            player.close()

    def play_real(seed: int) -> Any:
        side = sides.get()
        try:
            return play(side, seed)
        finally:
            sides.put(side)

    known = list(seeds)
    with ThreadPoolExecutor(AT_A_TIME) as threads:
        real = list(threads.map(play_real, known))
    for _ in range(AT_A_TIME):
        sides.get().close()
    found = []
    for seed, outcomes in zip(known, real, strict=True):
        pairs = zip(outcomes, play(Simulated(seed), seed), strict=True)
        found += [f"seed {seed}: {step}: {one} != {other}" for (step, one), (_, other) in pairs if one != other]
    return found


def test_readers_and_writers_get_the_same_answers(servers: str) -> None:
    assert (
        differences(servers, reading_history, [*range(28), 683, 3937]) == []
    )  # the position after a seek; two seeks in a row


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_readers_and_writers_get_the_same_answers_in_many_histories(servers: str) -> None:
    assert differences(servers, reading_history, range(28, 1028)) == []


def test_transactional_producers_get_the_same_answers(servers: str) -> None:
    assert differences(servers, transaction_history, [*range(20), 438]) == []  # 438: a record of a fenced producer


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_transactional_producers_get_the_same_answers_in_many_histories(servers: str) -> None:
    assert differences(servers, transaction_history, range(20, 620)) == []


def test_groups_get_the_same_assignments(servers: str) -> None:
    assert differences(servers, group_history, range(20)) == []


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_groups_get_the_same_assignments_in_many_histories(servers: str) -> None:
    assert differences(servers, group_history, range(20, 320)) == []
