"""A reader from outside finds each window of a windowed table as downstream has seen it, and nothing beside it."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.testing import TopologyDriver
from streamactors.windows import SessionWindows, SlidingWindows, TimeWindows
from streamactors.windows.state.reads import StoreRequest

WINDOWS = {
    "time": TimeWindows.of_size(10).with_grace(5),
    "hopping": TimeWindows.of_size(10).advance_by(5).with_grace(5),
    "sessions": SessionWindows.with_gap(5).with_grace(5),
    "sliding": SlidingWindows.of_difference(5).with_grace(5),
}


@pytest.mark.parametrize("windows", WINDOWS)
def test_every_window_that_was_forwarded_is_found_with_its_value_and_time(windows: str) -> None:
    driver = TopologyDriver(
        lambda topics: topics.stream("in").group_by_key().windowed_by(WINDOWS[windows]).count(name="counts")
    )
    seen: dict[Any, Any] = {}
    for key, time in (("a", 1), ("a", 4), ("b", 4), ("a", 8), ("a", 12)):
        for output in driver.pipe("in", key, "x", time):
            record = output.record
            seen[record.key, record.start, record.end] = (
                None if record.value is None else (record.value, record.timestamp)
            )
    assert len(seen) >= 3
    table = driver.store("counts")
    for (key, start, end), found in seen.items():
        assert table.fetch(key, start, end) == found
    there = {where: found for where, found in seen.items() if found is not None}
    listed = driver._task.entries("counts", StoreRequest("range"))
    assert {(each.key, each.start, each.end): (each.value, each.timestamp) for each in listed} == there
    assert table.fetch("c", 0, 10) is None
    assert table.fetch("a", 3_000, 3_010) is None
