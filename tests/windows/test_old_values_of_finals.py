"""Final results of time windows whose aggregate changes in place: the steps after them get the aggregate before the last change as the old value.

The aggregation changed its own aggregate, so the old value of a result was the object of the new one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.windows import Record, TimeWindows
from streamactors.windows.topology.chain import Records, tasks_of
from tests.windows.words import CLOSED

TEN = TimeWindows.of_size(10).with_grace(0)
ROWS = [Record("k", 1, 1), Record("k", 2, 2), Record("one", 3, 3), Record("z", 9, 20)]


def gather(seen: list[int], value: int) -> list[int]:
    seen.append(value)
    return seen


def added(seen: list[int], value: int) -> list[int]:
    return [*seen, value]


@pytest.mark.parametrize("add", [gather, added])
def test_a_step_after_final_results_gets_the_value_before_the_last_change(add: Callable[..., Any]) -> None:
    seen: list[list[int]] = []

    def see(value: list[int]) -> list[int]:
        seen.append(list(value))
        return value

    table = Records().group_by_key().windowed_by(TEN).aggregate(list, add).suppress(CLOSED).map_values(see)
    changed = table.filter(bool)  # it needs the old values
    tasks_of(changed.to_stream())().process_chunk(ROWS)
    assert seen == [[1, 2], [1], [3], []]  # new and old of each window


def test_a_filter_after_final_results_knows_that_the_window_did_not_match_before() -> None:
    results = []
    for add in (gather, added):
        table = Records().group_by_key().windowed_by(TEN).aggregate(list, add).suppress(CLOSED)
        matching = table.filter(
            lambda seen: len(seen) == 1
        )  # the window of "k" matched before its last row, and is deleted
        out = tasks_of(matching.to_stream())().process_chunk(ROWS)
        results.append([(row.key, row.value) for row in out])
    assert results == [[("k", None), ("one", [3])]] * 2
