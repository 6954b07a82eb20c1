"""keyed, process, process_values and join_lookup on sources and flows: what a topology does with a state works on any stream of Records."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors import Flow, Sink, Source
from streamactors.errors import BuildError
from streamactors.windows import KeyValueStore, Processor, Record

ROWS = [Record("ab"[n % 2], n, n) for n in range(6)]
RECORDS = st.lists(
    st.builds(Record, st.sampled_from(["a", "b", "c", None]), st.integers(0, 9), st.integers(0, 50)), max_size=25
)


def collected(source: Any) -> list[Any]:
    result: list[Any] = source.run_with(Sink.to_list()).result(timeout=10)
    return result


def values(source: Any) -> list[Any]:
    return [row.value for row in collected(source)]


def total(state: int, row: Record) -> tuple[int, list[int]]:
    return state + row.value, [state + row.value]


class Counted(Processor):
    """Forwards how often the key has come, from a store."""

    def init(self, context: Any) -> None:
        self.context = context
        self.counts = context.store("counts")

    def process(self, record: Record) -> None:
        count = (self.counts.get(record.key) or 0) + 1
        self.counts.put(record.key, count)
        self.context.forward(record.replace(value=count))


class Renamed(Processor):
    """Forwards each record with another key."""

    def init(self, context: Any) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        self.context.forward(record.replace(key="z"))


@given(rows=RECORDS, size=st.integers(1, 7))
@settings(max_examples=60, deadline=None)
def test_keyed_equals_a_dict_of_states_for_every_chunking(rows: list[Record], size: int) -> None:
    states: dict[Any, int] = defaultdict(int)
    expected = []
    for row in rows:
        if row.key is not None:
            states[row.key] += row.value
            expected.append((row.key, states[row.key], row.timestamp))
    chunks = Source.from_iterable(rows).max_chunk(size).async_boundary(size)
    found = collected(chunks.keyed(total, initial=0))
    assert [(row.key, row.value, row.timestamp) for row in found] == expected


def test_keyed_gives_every_result_of_its_function_and_forgets_a_state_of_none() -> None:
    def pairs(state: Any, row: Record) -> tuple[Any, list[Any]]:
        return (row.value, []) if state is None else (None, [(state, row.value)])

    rows = [Record("a", n, n) for n in range(5)]
    assert values(Source.from_iterable(rows).keyed(pairs)) == [(0, 1), (2, 3)]


def test_keyed_forgets_a_state_that_was_not_written_for_its_time() -> None:
    rows = [Record("a", 1, 0), Record("a", 1, 5), Record("b", 1, 100), Record("a", 1, 101)]
    assert values(Source.from_iterable(rows).keyed(total, initial=0, ttl=50)) == [1, 2, 1, 1]


def test_a_flow_that_keeps_states_begins_anew_in_each_run_and_may_follow_itself() -> None:
    flow = Flow.keyed(total, initial=0)
    assert [values(Source.from_iterable(ROWS).via(flow)) for _ in range(2)] == [[0, 1, 2, 4, 6, 9]] * 2
    twice = [list(itertools.accumulate(each)) for each in ([0, 2, 6], [1, 4, 9])]
    assert values(Source.from_iterable(ROWS).via(flow).via(flow)) == [
        value for pair in zip(*twice, strict=True) for value in pair
    ]


def test_a_processor_keeps_a_store_and_forwards_what_it_likes() -> None:
    source = Source.from_iterable(ROWS)
    store = KeyValueStore("counts")
    assert values(source.process(Counted, stores=[store])) == [1, 1, 2, 2, 3, 3]
    assert values(source.process_values(Counted, stores=[store])) == [1, 1, 2, 2, 3, 3]
    assert {row.key for row in collected(source.process(Renamed))} == {"z"}


def test_process_values_refuses_a_processor_that_changes_the_key() -> None:
    failed = Source.from_iterable(ROWS).process_values(Renamed).run_with(Sink.to_list())
    with pytest.raises(Exception, match="key"):
        failed.result(timeout=10)


def test_results_can_be_grouped_and_windowed() -> None:
    counts = Source.from_iterable(ROWS).process(Renamed).group_by_key().count().to_stream()
    assert values(counts) == [1, 2, 3, 4, 5, 6]


def test_join_lookup_asks_each_key_once_and_leaves_out_what_has_no_answer() -> None:
    asked: list[str] = []

    async def ask(key: str) -> str | None:
        asked.append(key)
        return None if key == "b" else key * 2

    source = Source.from_iterable(ROWS)
    assert values(source.join_lookup(ask)) == [(0, "aa"), (2, "aa"), (4, "aa")]
    assert sorted(asked) == ["a", "b"]
    left = source.join_lookup(ask, lambda value, answer: f"{value}{answer}", how="left")
    assert values(left) == ["0aa", "1None", "2aa", "3None", "4aa", "5None"]
    by_value = source.join_lookup(lambda value: value * 10 or None, key=lambda row: row.value)
    assert values(by_value) == [(value, value * 10) for value in range(1, 6)]


def test_wrong_arguments_are_refused_where_they_are_written() -> None:
    with pytest.raises(BuildError, match=r"process: .* is one processor"):
        Source.from_iterable(ROWS).process(Renamed())  # type: ignore[arg-type]
    with pytest.raises(BuildError, match="keyed"):
        Source.from_iterable(ROWS).keyed(7)  # type: ignore[arg-type]
    with pytest.raises(BuildError, match=r"join_lookup: how is 'outer'; choose one of 'inner', 'left'"):
        Source.from_iterable(ROWS).join_lookup(dict.get, how="outer")  # type: ignore[arg-type]
