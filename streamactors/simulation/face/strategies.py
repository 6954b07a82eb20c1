"""Records from a Hypothesis strategy, drawn from the seed of the run: no database, no shrinking, the same in every process.

Owner: the simulation of one run. Hypothesis is loaded only by tests that use it."""

from __future__ import annotations

import sys
import warnings
from typing import Any


def is_strategy(value: object) -> bool:
    """Return whether a value is a strategy of Hypothesis."""
    module = sys.modules.get("hypothesis.strategies")
    return module is not None and isinstance(value, module.SearchStrategy)


def drawn(strategy: Any, count: int, seed: int | str) -> list[Any]:
    """Return `count` values of a strategy; those of its longest list, for a strategy of lists."""
    import hypothesis

    found: list[Any] = []

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count + 1, database=None, deadline=None, phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )  # fmt: skip
    @hypothesis.given(strategy)
    def draw(value: Any) -> None:
        found.append(value)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        draw()
    lists = [each for each in found if isinstance(each, list)]
    if lists:
        return max(lists, key=len)
    made = found[1:] or found  # the first example is the simplest one
    return [made[index % len(made)] for index in range(count)]
