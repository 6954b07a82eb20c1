"""The first value of a fold: each run starts with a copy, so that a list may be folded into."""

from __future__ import annotations

import copy
from typing import TypeVar

S = TypeVar("S")


def fresh(zero: S) -> S:
    """Return a shallow copy of `zero`, or `zero` itself when it cannot be copied."""
    try:
        return copy.copy(zero)
    except TypeError:
        return zero  # what cannot be copied is shared by the runs
