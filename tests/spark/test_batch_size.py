"""How many rows a batch gets, from how long batches take."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from streamactors.spark.sink.batch_size import BatchSize


def settled(
    cost_ms: Callable[[int], float], *, max_rows: int = 100_000, target_ms: float = 1_000, batches: int = 40
) -> int:
    size = BatchSize(max_rows, target_ms)
    for _ in range(batches):
        size.took(size.rows, cost_ms(size.rows))
    return size.rows


def test_fast_batches_are_as_large_as_allowed() -> None:
    assert settled(lambda rows: 100 + rows * 0.001) == 100_000


def test_slow_rows_make_batches_that_take_the_target() -> None:
    rows = settled(lambda rows: rows * 1.0)
    assert 800 <= rows <= 1_200


def test_very_slow_rows_come_one_by_one() -> None:
    assert settled(lambda rows: rows * 3_000.0, max_rows=50) == 1


@pytest.mark.parametrize("fixed", [2_000, 10_000])
def test_a_batch_that_is_slow_whatever_its_size_is_not_made_smaller_for_nothing(fixed: int) -> None:
    assert settled(lambda rows: fixed + rows * 0.0001) > 50_000


def test_with_fixed_cost_and_slow_rows_half_of_the_time_is_rows() -> None:
    rows = settled(lambda rows: 2_000 + rows * 1.0)
    assert 1_000 <= rows <= 4_000


def test_the_first_batch_pays_for_the_start_and_is_not_counted() -> None:
    size = BatchSize(1_000, 1_000)
    size.took(1_000, 60_000)
    assert size.rows == 1_000


def test_batches_without_rows_say_nothing() -> None:
    size = BatchSize(1_000, 1_000)
    for _ in range(5):
        size.took(0, 500)
    assert size.rows == 1_000
