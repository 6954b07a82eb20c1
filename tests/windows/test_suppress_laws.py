"""Suppression for a time limit beside a plain dictionary: bounds, timers that restart, and tasks that restart in between."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import BufferConfig, Suppressed

KEYS = st.sampled_from("abcd")
VALUES = st.one_of(st.none(), st.integers(0, 3), st.sampled_from(["", "text"]))
ROWS = st.lists(st.tuples(KEYS, VALUES, st.integers(0, 40), st.booleans()), max_size=25)
"""(key, value, timestamp, does the task restart behind the row)"""


def suppressing(suppression: Suppressed) -> WindowTestDriver:
    return WindowTestDriver(lambda records: records.to_table().suppress(suppression))


class Model:
    """At most one update of a key per limit; the oldest entries leave a full buffer."""

    def __init__(self, limit: int, bound: int | None, restarts: bool) -> None:
        self.limit, self.bound, self.restarts = limit, bound, restarts
        self.stream_time = -1
        self.held: dict[str, tuple[int, Any, int]] = {}  # buffer time, value, timestamp

    def row(self, key: str, value: Any, time: int) -> list[tuple[str, Any, int]]:
        self.stream_time = max(self.stream_time, time)
        since = self.held[key][0] if key in self.held else time
        self.held[key] = (max(since, time) if self.restarts else since, value, time)
        out = []
        while self.held and self.first()[0] <= self.stream_time - self.limit:
            out.append(self.leave())
        while self.bound is not None and len(self.held) > self.bound:
            out.append(self.leave())
        return out

    def first(self) -> tuple[int, str]:
        return min((since, key) for key, (since, _, _) in self.held.items())

    def leave(self) -> tuple[str, Any, int]:
        key = self.first()[1]
        _, value, time = self.held.pop(key)
        return key, value, time


@pytest.mark.parametrize("restarts", [False, True])
@settings(max_examples=150, deadline=None)
@given(limit=st.integers(0, 12), bound=st.one_of(st.none(), st.integers(0, 3)), rows=ROWS)
def test_each_update_leaves_at_its_time_in_order_or_when_the_buffer_is_full(
    restarts: bool, limit: int, bound: int | None, rows: Any
) -> None:
    buffer = BufferConfig.unbounded() if bound is None else BufferConfig.max_records(bound)
    suppression = Suppressed.until_time_limit(limit, buffer)
    driver = suppressing(suppression.restart_timer_on_update() if restarts else suppression)
    model = Model(limit, bound, restarts)
    changes: list[Any] = []
    for key, value, time, ends in rows:
        found = [(each.key, each.value, each.timestamp) for each in driver.pipe(key, value, time)]
        assert found == model.row(key, value, time)
        assert driver.buffered.records == len(model.held)
        if ends:
            changes += driver.changes()
            driver.restart(changes)


@settings(max_examples=150, deadline=None)
@given(limit=st.integers(0, 12), rows=ROWS)
def test_the_counted_bytes_are_those_of_the_entries(limit: int, rows: Any) -> None:
    """With a bound the bytes are counted as rows come and go; without one they are added up when somebody asks."""
    counting = suppressing(Suppressed.until_time_limit(limit, BufferConfig.max_bytes(1 << 30)))
    adding = suppressing(Suppressed.until_time_limit(limit, BufferConfig.unbounded()))
    changes: list[Any] = []
    for key, value, time, ends in rows:
        assert counting.pipe(key, value, time) == adding.pipe(key, value, time)
        assert counting.buffered == adding.buffered
        if ends:
            changes += counting.changes()
            counting.restart(changes)
            assert counting.buffered == adding.buffered


@settings(max_examples=100, deadline=None)
@given(most=st.integers(0, 200), rows=ROWS)
def test_a_buffer_holds_no_more_bytes_than_its_bound_and_lets_the_oldest_go(most: int, rows: Any) -> None:
    driver = suppressing(Suppressed.until_time_limit(1_000, BufferConfig.max_bytes(most)))
    model = Model(1_000, None, restarts=False)
    for key, value, time, _ in rows:
        left = [(each.key, each.value, each.timestamp) for each in driver.pipe(key, value, time)]
        assert driver.buffered.bytes <= most
        assert model.row(key, value, time) == []
        assert left == [model.leave() for _ in left]
        assert driver.buffered.records == len(model.held)
