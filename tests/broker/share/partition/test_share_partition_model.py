"""Random histories of a share partition beside a model that has one row per record."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from streamactors.broker.share.partition.in_flight import RecordState, ShareLimits
from tests.broker.share.partition.share_model import World, drain, step


def _history(seed: int, steps: int) -> World:
    random = Random(seed)
    limits = ShareLimits(
        record_locks=random.choice((6, 20, 100)), deliveries=random.choice((2, 3, 5)), lock_ms=1000,
        dead_letters=seed % 2 == 1,
    )  # fmt: skip
    world = World(random, limits)
    try:
        for _ in range(steps):
            step(world)
        drain(world)
    except Exception as error:
        raise AssertionError(f"history {seed}") from error
    assert limits.dead_letters or not world.buried
    left = [at for at, (state, _) in world.stored.items() if state is RecordState.ARCHIVING]
    assert all(at < world.partition.start for at in left), f"history {seed}"
    return world


def _run(seeds: range, steps: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in seeds:
        counts.update(_history(seed, steps).counts)
    return counts


def test_three_hundred_histories_equal_the_model_record_by_record_and_end_with_every_record_done() -> None:
    counts = _run(range(300), 80)
    wanted = {
        "ACCEPT",
        "RELEASE",
        "REJECT",
        "GAP",
        "renewed",
        "refused",
        "expired",
        "not stored",
        "reload",
        "log start",
        "buried",
    }
    assert not {each for each in wanted if counts[each] < 20}, counts


@pytest.mark.slow
@pytest.mark.timeout(600)  # half a minute of CPU time
def test_thousands_of_long_histories_equal_the_model() -> None:
    _run(range(10_000, 12_500), 150)
