"""The fluent words on Source and Flow."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors import Flow, Sink, Source
from streamactors.errors import BuildError
from streamactors.windows import (
    BufferConfig,
    InvalidRecord,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
    WindowedRecord,
)
from tests.windows.words import CLOSED, W

TEN = TimeWindows.of_size(10).with_grace(0)
ROWS = [Record("a", 1, 5), Record("b", 2, 6), Record("a", 3, 12), Record("a", 4, 7)]


def collected(source: Any) -> list[Any]:
    result: list[Any] = source.run_with(Sink.to_list()).result(timeout=10)
    return result


def test_the_example_of_the_readme_runs() -> None:
    finals = (
        Source.from_iterable([Record("A", 1, timestamp=600_000)])
        .group_by_key()
        .windowed_by(TimeWindows.of_size("2m").with_grace("2m"))
        .count()
        .suppress(Suppressed.until_window_closes(BufferConfig.unbounded()))
        .to_stream()
    )
    assert collected(finals) == [WindowedRecord("A", 600_000, 720_000, 1, 600_000)]


@pytest.mark.parametrize(
    "windows", [TEN, SessionWindows.with_gap(2).with_grace(0), SlidingWindows.of_difference(3).with_grace(0)]
)
def test_a_flow_of_windows_can_be_reused(windows: Any) -> None:
    flow = Flow.group_by_key().windowed_by(windows).count().suppress(CLOSED).to_stream().map(lambda each: each.value)
    first, second = collected(Source.from_iterable(ROWS).via(flow)), collected(Source.from_iterable(ROWS).via(flow))
    assert first == second
    assert sum(first) >= 3


def test_operators_go_on_behind_the_results() -> None:
    hot = (
        Source.from_iterable(ROWS).group_by_key().windowed_by(TEN).reduce(max).suppress(CLOSED).to_stream()
        .filter(lambda each: each.value > 2).map(lambda each: (each.key, each.value))
    )  # fmt: skip
    assert collected(hot) == [("a", 3)]


def test_windows_behind_windows_end_with_the_source() -> None:
    """The first ones mark their own results, and are no source whose end the second ones could hear."""
    rows = (
        Source.from_iterable(ROWS).group_by_key().windowed_by(TEN).count(name="first").to_stream()
        .map(lambda each: Record(each.key, each.value, each.timestamp))
    )  # fmt: skip
    finals = rows.group_by_key().windowed_by(TEN).count(name="second").suppress(CLOSED).to_stream()
    assert [(each.key, each.start, each.value) for each in collected(finals)] == [
        ("a", 0, 1),
        ("b", 0, 1),
        ("a", 10, 1),
    ]


def test_key_by_and_to_table() -> None:
    by_parity = Source.from_iterable(ROWS).key_by(lambda record: record.value % 2).windowed_by(TEN).count().to_stream()
    assert [(each.key, each.value) for each in collected(by_parity)] == [(1, 1), (0, 1), (1, 1)]
    latest = Source.from_iterable(ROWS).to_table().filter(lambda value: value > 1).to_stream()
    assert collected(latest) == [Record("a", None, 5), Record("b", 2, 6), Record("a", 3, 12), Record("a", 4, 7)]


def test_late_rows_go_to_a_sink() -> None:
    late: list[Any] = []
    late_sink = Sink.to_list().map_materialized_value(late.append)
    finals = (
        Source.from_iterable(ROWS).group_by_key().windowed_by(TEN, late=late_sink).count().suppress(CLOSED).to_stream()
    )
    assert collected(finals) == [W("a", 0, 10, 1, 5), W("b", 0, 10, 1, 6), W("a", 10, 20, 1, 12)]
    assert [each.record for each in late[0].result(30)] == [Record("a", 4, 7)]


def test_late_must_be_a_sink() -> None:
    with pytest.raises(BuildError):
        Source.from_iterable(ROWS).group_by_key().windowed_by(TEN, late="somewhere").count().to_stream()


def test_a_new_key_over_several_partitions_is_an_error_that_says_what_to_do() -> None:
    rows = [row.replace(context=RecordContext("input", at % 2, at)) for at, row in enumerate(ROWS)]
    together = Source.from_iterable(rows).group_by_key().windowed_by(TEN).count().to_stream()
    assert len(collected(together)) == 4  # each partition has its own time: the last row is not late
    with pytest.raises(InvalidRecord, match="read that topic, and use group_by_key"):
        collected(Source.from_iterable(rows).key_by(lambda record: "all").windowed_by(TEN).count().to_stream())


def test_a_mistake_is_reported_where_it_is_written() -> None:
    grouped = Source.from_iterable(ROWS).group_by_key()
    with pytest.raises(BuildError, match="no grace period"):
        grouped.windowed_by(TimeWindows.of_size("1m"))
