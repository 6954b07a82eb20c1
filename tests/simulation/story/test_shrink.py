"""The shortest list that breaks: for every set of guilty parts."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from streamactors.simulation.story.shrink import fewest

LISTS = st.integers(1, 30).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1), max_size=6)))


@given(LISTS)
def test_exactly_the_guilty_parts_are_left(case: tuple[int, set[int]]) -> None:
    count, guilty = case
    asked: list[Sequence[int]] = []

    def breaks(kept: Sequence[int]) -> bool:
        asked.append(kept)
        return guilty <= set(kept)

    assert fewest(list(range(count)), breaks, lambda: False) == sorted(guilty)
    assert len(asked) <= 3 * count * (len(guilty) + 1)


def test_nothing_is_tried_when_the_time_is_over() -> None:
    def breaks(kept: Sequence[int]) -> bool:
        raise AssertionError("the time is over")

    assert fewest([1, 2, 3], breaks, lambda: True) == [1, 2, 3]
