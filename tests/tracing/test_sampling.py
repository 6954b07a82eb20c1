"""Which records begin a trace: each with the same probability, whatever the chunks are."""

from __future__ import annotations

import random
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.tracing.sampling import Gaps


def test_all_and_none() -> None:
    assert Gaps(1.0).chosen(5) == [0, 1, 2, 3, 4]
    assert Gaps(0.0).chosen(5) == []


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(0, 1_000), st.floats(0.01, 0.99))
def test_the_chunks_do_not_matter(sizes: list[int], seed: int, ratio: float) -> None:
    whole = Gaps(ratio, random.Random(seed).random)
    parts = Gaps(ratio, random.Random(seed).random)
    starts = accumulate([0, *sizes])
    assert [start + n for start, size in zip(starts, sizes, strict=False) for n in parts.chosen(size)] == whole.chosen(
        sum(sizes)
    )


@pytest.mark.parametrize("ratio", [0.001, 0.1, 0.5])
def test_the_share_is_the_ratio(ratio: float) -> None:
    n = 1_000_000
    found = len(Gaps(ratio, random.Random(1).random).chosen(n))
    assert abs(found - n * ratio) < 5 * (n * ratio * (1 - ratio)) ** 0.5  # five standard deviations
