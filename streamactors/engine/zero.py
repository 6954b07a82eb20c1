"""The first value of a fold. Each run starts with a copy, so that a function may append to a list."""

from __future__ import annotations

import copy
from typing import TypeVar

S = TypeVar("S")


def fresh(zero: S) -> S:
    """Return a shallow copy of `zero`, or `zero` itself when it cannot be copied."""
    try:
        return copy.copy(zero)
    except TypeError:
        return zero  # shared by the runs
