"""The steps of a topology that keep no state: each is its function of every row, in the order of the rows."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.testing import TopologyDriver
from streamactors.windows import KeyValueStore, Processor, Record
from streamactors.windows.errors import InvalidRecord, OperatorFailed

ROWS = st.lists(
    st.tuples(st.sampled_from(["a", "b", None]), st.one_of(st.none(), st.integers(0, 6)), st.integers(0, 30)),
    max_size=12,
)


def small(row: Any) -> bool:
    return row.value is not None and row.value < 3


def some(value: Any) -> list[Any]:
    return [value] * (value or 0)


def moved(row: Record) -> Record:
    return Record(row.value, row.key, row.timestamp + 1)


STEPS: dict[str, Any] = {
    "map": (moved, lambda row: [moved(row)]),
    "flat_map": (lambda row: [moved(row)] * (row.value or 0), lambda row: [moved(row)] * (row.value or 0)),
    "map_values": (lambda value: (value,), lambda row: [Record(row.key, (row.value,), row.timestamp)]),
    "flat_map_values": (some, lambda row: [Record(row.key, value, row.timestamp) for value in some(row.value)]),
    "filter": (small, lambda row: [row] if small(row) else []),
    "filter_not": (small, lambda row: [] if small(row) else [row]),
    "select_key": (
        lambda row: (row.key, row.value),
        lambda row: [Record((row.key, row.value), row.value, row.timestamp)],
    ),
    "peek": (lambda row: None, lambda row: [row]),
}


def plain(row: Any) -> tuple[Any, Any, int]:
    return row.key, row.value, row.timestamp


@pytest.mark.parametrize("step", STEPS)
@settings(max_examples=30, deadline=None)
@given(rows=ROWS)
def test_a_step_is_its_function_of_each_row(step: str, rows: Any) -> None:
    fn, of = STEPS[step]
    driver = TopologyDriver(lambda topics: getattr(topics.stream("in"), step)(fn))
    for key, value, time in rows:
        found = [plain(each.record) for each in driver.pipe("in", key, value, time)]
        assert found == [plain(each) for each in of(Record(key, value, time))]


def test_peek_sees_each_row_before_it_passes() -> None:
    seen: list[Any] = []
    driver = TopologyDriver(
        lambda topics: topics.stream("in").peek(seen.append).map_values(lambda value: [value, len(seen)])
    )
    (output,) = driver.pipe("in", "k", 1, 5)
    assert output.record.value == [1, 1]
    assert plain(seen[0]) == ("k", 1, 5)


@pytest.mark.parametrize("step", ["map", "flat_map"])
def test_a_function_that_returns_no_record_is_named(step: str) -> None:
    driver = TopologyDriver(lambda topics: getattr(topics.stream("in"), step)(lambda row: [row.value]))
    with pytest.raises((InvalidRecord, OperatorFailed), match="return Records"):
        driver.pipe("in", "k", 1, 5)


@pytest.mark.parametrize("answer", ["record", "list", "tuple", "none", "other"])
def test_what_on_expire_returns_is_forwarded_if_it_is_records(answer: str) -> None:
    def on_expire(key: Any, value: Any) -> Any:
        one, two = Record(key, ("over", value), 7), Record("other", value, 8)
        return {"record": one, "list": [one, two], "tuple": (two,), "none": None, "other": "text"}[answer]

    class Keep(Processor):
        def init(self, context: Any) -> None:
            self.store = context.store("kept")

        def process(self, record: Record) -> None:
            self.store.put(record.key, 1)

    stores = [KeyValueStore("kept", ttl=10, on_expire=on_expire)]
    driver = TopologyDriver(lambda topics: topics.stream("in").process(Keep, stores=stores))
    assert driver.pipe("in", "a", "x", 5) == []
    assert driver.pipe("in", "b", "x", 14) == []
    found = [plain(each.record) for each in driver.pipe("in", "b", "x", 15)]
    both = [("a", ("over", 1), 7), ("other", 1, 8)]
    assert found == {"record": both[:1], "list": both, "tuple": both[1:], "none": [], "other": []}[answer]
