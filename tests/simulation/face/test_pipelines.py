"""Planted mistakes are found, by the check that is meant; correct pipelines raise no false alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamactors.simulation import Faults, Simulation
from streamactors.simulation.running.seeds import Plan, try_seeds
from tests.simulation.face.pipelines import CORRECT, MISTAKES

SEEDS_TO_FIND = 200
NO_STORE = {"state in a global dict"}
"""Found also without failing calls: by crashes, and by the second instance."""


@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_found_within_200_seeds(name: str) -> None:
    body, check = MISTAKES[name]
    faults = Faults.everything(failing_call=0.0, duplicate=0.0) if name in NO_STORE else None
    tried = try_seeds(body, Plan(SEEDS_TO_FIND, faults=faults))
    assert tried.outcome is not None, f"not found in {tried.seeds} seeds"
    assert tried.outcome.broken is not None
    assert tried.outcome.broken.check == check, tried.outcome.broken


def _hold(body: Callable[[Simulation], None], seeds: int) -> None:
    tried = try_seeds(body, Plan(seeds))
    assert tried.outcome is None, (
        f"seed {tried.failing and tried.failing.seed}: {tried.outcome and tried.outcome.broken}"
    )
    assert tried.seeds == seeds


@pytest.mark.parametrize("body", CORRECT)
def test_a_correct_pipeline_raises_no_alarm(body: Callable[[Simulation], None]) -> None:
    _hold(body, 2)


@pytest.mark.slow
@pytest.mark.timeout(7_200)
@pytest.mark.parametrize("body", CORRECT)
def test_a_correct_pipeline_raises_no_alarm_in_2000_seeds(body: Callable[[Simulation], None]) -> None:
    _hold(body, 2_000)
