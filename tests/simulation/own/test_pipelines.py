"""Windows and joins on disk with standby copies, and retry topics, through crashes, torn writes, lost disks, lost requests and a broker's death."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.kafka.errors import NoBroker
from tests.simulation.own.pipelines import KINDS, Counts, Joins, Retries, play_out
from tests.simulation.own.play import Play

SOME = [*((Counts, seed) for seed in range(4)), *((Joins, seed) for seed in range(2)), *((Retries, seed) for seed in range(6))]  # fmt: skip


@pytest.mark.parametrize(("kind", "seed"), SOME)
def test_results_are_right_through_crashes(kind: Any, seed: int) -> None:
    play_out(kind, seed)


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("kind", KINDS)
def test_results_are_right_through_crashes_in_many_seeds(kind: Any) -> None:
    for seed in range(100, 400):
        play_out(kind, seed)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_plays_the_same_run(kind: Any) -> None:
    once, again = (play_out(kind, 50).world.trace.lines() for _ in range(2))
    assert once == again


def test_a_cluster_that_does_not_answer_is_reported_as_without_brokers() -> None:
    """The connector looked for a listener by a socket, which ends a simulated run."""

    def body(play: Play) -> None:
        for broker in range(3):
            play.cluster.cut(broker)
        play.start("1")
        assert play.until(lambda: bool(play.failed))

    made = Counts()
    play = Play(0, made.run, made.topics)
    play.run(body)
    assert isinstance(play.failed[0][1], NoBroker)
