"""Times of a group's records, read by a node whose clock shows another time."""

from __future__ import annotations

import pytest

from streamactors.broker.group.stored_times import interval_is_over


@pytest.mark.parametrize(
    ("now_ms", "over"), [(999, True), (1_000, False), (1_099, False), (1_100, True), (5_000, True), (0, True)]
)
def test_an_interval_is_over_at_its_end_and_before_its_beginning(now_ms: int, over: bool) -> None:
    assert interval_is_over(1_000, 100, now_ms) is over


def test_an_interval_of_nothing_is_over() -> None:
    assert interval_is_over(1_000, 0, 1_000)
