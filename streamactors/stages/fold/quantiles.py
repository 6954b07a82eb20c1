"""quantiles: how the numbers of a stream are distributed, in a few kilobytes. By Apache DataSketches' KLL sketch."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from streamactors.errors import BuildError
from streamactors.stages.checks import at_least


def sketch_class() -> Any:
    """Return datasketches' class. Raises BuildError when the package is not installed."""
    try:
        from datasketches import kll_doubles_sketch
    except ImportError as error:
        raise BuildError(
            "quantiles needs the package datasketches; install it with: pip install 'streamactors[sketches]'"
        ) from error
    return kll_doubles_sketch


def checked_ranks(operator: str, ranks: Iterable[float]) -> list[float]:
    """Return the ranks as floats. Raises BuildError for one outside 0 to 1."""
    found = list(ranks)
    for rank in found:
        if isinstance(rank, bool) or not isinstance(rank, int | float) or not 0 <= rank <= 1:
            raise BuildError(f"{operator}: ranks are numbers from 0 to 1, got {rank!r}")
    if not found:
        raise BuildError(f"{operator} expects at least one rank, such as 0.5 or 0.99")
    return [float(rank) for rank in found]


class Quantiles:
    """A sketch that is being filled: `add` numbers, ask for `values`."""

    def __init__(self, ranks: list[float], k: int) -> None:
        self._ranks = ranks
        self._sketch = sketch_class()(k)

    def add(self, number: float) -> Quantiles:
        """Count a number; NaN is refused."""
        if math.isnan(number):
            raise ValueError("quantiles: NaN has no rank; filter it out first")
        self._sketch.update(number)
        return self

    def values(self) -> dict[float, float]:
        """Return rank -> number; {} when there was none."""
        sketch = self._sketch
        if sketch.is_empty():
            return {}
        found = dict(zip(self._ranks, map(float, sketch.get_quantiles(self._ranks)), strict=True))
        exact = {0.0: sketch.get_min_value, 1.0: sketch.get_max_value}  # the sketch knows the ends exactly
        return {rank: float(exact[rank]()) if rank in exact else number for rank, number in found.items()}


def checked_k(operator: str, k: int) -> int:
    """Return `k`, the size of a sketch."""
    at_least(operator, "k", k, 8)
    if k > 65_535:
        raise BuildError(f"{operator}: k must be at most 65535, got {k}")
    return k
