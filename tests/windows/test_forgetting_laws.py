"""Forgetting old windows changes no result: neither forgetting after every row, nor never."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows.operators.windowed.closing import InclusiveOperator
from tests.windows.run_case import definition, plain

STEPS = st.lists(st.tuples(st.sampled_from("abcd"), st.integers(-9, 3)), min_size=20, max_size=60)


def results(windows: tuple[Any, ...], semantics: Any, beyond: int, finals: bool, rows: Any, sweep: Any) -> list[Any]:
    """Return the rows that each input row gave; `sweep` is called in the place of the operator's own decision."""

    def build(records: Any) -> Any:
        made = definition(windows)
        retention = made.shortest_retention_ms + beyond
        grouped = records.group_by_key().windowed_by(made, semantics=semantics, retention=retention)
        table = grouped.count()
        return (table.emit_on_window_close() if finals else table).to_stream()

    with patch.object(InclusiveOperator, "_after_rows", sweep):
        driver = WindowTestDriver(build)
        return [([plain(each) for each in driver.pipe(*row)], driver.dropped_late) for row in rows]


@pytest.mark.parametrize("kind", ["session", "sliding"])
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    reach=st.integers(1, 5),
    grace=st.integers(0, 6),
    beyond=st.integers(0, 6),
    finals=st.booleans(),
    steps=STEPS,
)
def test_forgetting_windows_changes_no_result(
    kind: str, semantics: Any, reach: int, grace: int, beyond: int, finals: bool, steps: list[tuple[str, int]]
) -> None:
    time, rows = 20, []
    for key, step in steps:
        rows.append((key, "x", max(0, time + step)))
        time = max(time, time + step)
    after_each = results((kind, reach, grace), semantics, beyond, finals, rows, lambda operator: operator._sweep())
    never = results((kind, reach, grace), semantics, beyond, finals, rows, lambda operator: None)
    assert after_each == never
