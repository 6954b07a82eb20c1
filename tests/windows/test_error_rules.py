"""Bad input: one clear error each, where it can be seen."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from streamactors.durations import event_ms
from streamactors.errors import BuildError, StageFailed
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import (
    AggregationFailed,
    BufferConfig,
    BufferFull,
    BufferPolicyError,
    InvalidRecord,
    InvalidTimestamp,
    OperatorFailed,
    Record,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskDead,
    TimeWindows,
    UnlimitedWindows,
    WindowedRecord,
)
from tests.windows.words import CLOSED, UNBOUNDED, W, finals, limited, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)


def test_E_1_a_full_buffer_names_node_records_and_bytes() -> None:
    driver = limited(1_000, BufferConfig.max_records(1).with_max_bytes(10_000).shut_down_when_full())
    driver.pipe("a", "x", 1)
    with pytest.raises(
        BufferFull, match=r"suppress-\d+ buffer exceeded its bound: \[2/1\] records, \[70/10000\] bytes"
    ) as full:
        driver.pipe("b", "x", 2)
    error = full.value
    assert (error.records, error.max_records, error.bytes, error.max_bytes) == (2, 1, 70, 10_000)
    assert error.node.startswith("suppress-")


def test_E_1_a_bound_that_was_not_set_is_none() -> None:
    driver = limited(1_000, BufferConfig.max_bytes(10).shut_down_when_full())
    with pytest.raises(BufferFull) as full:
        driver.pipe("a", "x", 1)
    assert full.value.max_records is None
    assert "records" in str(full.value)


@pytest.mark.parametrize(
    "windows", [TEN, SessionWindows.with_gap(10).with_grace(0), SlidingWindows.of_difference(10).with_grace(0)]
)
@pytest.mark.parametrize("bound", [BufferConfig.max_records(2), BufferConfig.max_bytes(2 * 66)])
def test_E_1_final_results_fail_when_full_and_the_task_is_dead(windows: Any, bound: Any) -> None:
    driver = WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(windows).count().suppress(Suppressed.until_window_closes(bound))
        )
    )  # fmt: skip
    pipe_all(driver, [("a", 1, 20), ("b", 1, 20)])
    with pytest.raises(BufferFull) as full:
        driver.pipe("c", 1, 20)
    assert full.value.records == 3
    with pytest.raises(TaskDead, match="BufferFull"):
        driver.pipe("d", 1, 20)
    with pytest.raises(TaskDead):
        driver.changes()


def test_E_1_what_was_released_before_the_failure_still_goes_out() -> None:
    driver = limited(10, BufferConfig.max_records(2).shut_down_when_full())
    out: list[Any] = []
    with pytest.raises(BufferFull):
        driver._task.process_into([Record(key, 1, at) for key, at in [("a", 1), ("b", 20), ("c", 20), ("d", 20)]], out)
    assert out == [Record("a", 1, 1)]


def test_E_1_of_two_failures_in_a_chunk_the_first_in_time_is_told() -> None:
    def add(total: int, value: int) -> int:
        return total + 1 // value

    bound = Suppressed.until_time_limit(1_000, BufferConfig.max_records(1).shut_down_when_full())
    driver = WindowTestDriver(lambda records: records.group_by_key().aggregate(int, add).suppress(bound))
    with pytest.raises(BufferFull):  # at "b", though the aggregation has met the failing row by then
        driver.pipe_all([Record("a", 1, 1), Record("b", 1, 2), Record("c", 0, 3)])


def test_E_2_until_window_closes_refuses_a_buffer_that_emits_early_by_its_type() -> None:
    for error in (BuildError, TypeError, ValueError, BufferPolicyError):
        with pytest.raises(error, match="not final"):
            Suppressed.until_window_closes(BufferConfig.max_records(1).emit_early_when_full())  # type: ignore[arg-type]


def test_E_2_until_window_closes_needs_windows_upstream() -> None:
    for build in (
        lambda records: records.to_table().suppress(CLOSED),
        lambda records: records.group_by_key().count().suppress(CLOSED),
        lambda records: records.group_by_key().windowed_by(TEN).count().to_stream().to_table().suppress(CLOSED),
    ):
        with pytest.raises(BuildError, match="needs windows in every branch"):
            WindowTestDriver(build)


@pytest.mark.parametrize(
    "make",
    [
        lambda: TimeWindows.of_size(0),
        lambda: TimeWindows.of_size(-5),
        lambda: TimeWindows.of_size(10).advance_by(0),
        lambda: TimeWindows.of_size(10).advance_by(11),
        lambda: TimeWindows.of_size(10).with_grace(-1),
        lambda: SlidingWindows.of_difference(-1),
        lambda: SlidingWindows.of_difference(1).with_grace("-1ms"),
        lambda: SessionWindows.with_gap(0),
        lambda: SessionWindows.with_gap(5).with_grace(-1),
        lambda: UnlimitedWindows.of().start_on(-1),
        lambda: Suppressed.until_time_limit(-1, UNBOUNDED),
        lambda: BufferConfig.max_records(-1),
        lambda: BufferConfig.max_bytes(-1),
        lambda: BufferConfig.max_records(1.5),  # type: ignore[arg-type]
    ],
)
def test_E_4_definitions_that_make_no_sense_are_value_errors_at_once(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


@pytest.mark.parametrize("text", ["", "5", "5 parsecs", "ten seconds", "1.5ms", "-5s", "1e3ms", "nan", "s"])
def test_durations_that_make_no_sense_name_what_and_how(text: str) -> None:
    with pytest.raises(BuildError, match="TimeWindows: size is"):
        TimeWindows.of_size(text)


@pytest.mark.parametrize("value", [None, True, 1.5, [], timedelta(microseconds=1), 2**63])
def test_durations_of_other_types_are_refused(value: Any) -> None:
    with pytest.raises(BuildError):
        TimeWindows.of_size(value)


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        ("150ms", 150),
        ("2m", 120_000),
        ("1.5s", 1_500),
        (7, 7),
        (timedelta(minutes=2), 120_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
    ],
)
def test_durations_as_users_write_them(value: Any, ms: int) -> None:
    assert event_ms(value, "x") == ms


@pytest.mark.parametrize("semantics", ["Strict", "", "spark"])
def test_semantics_must_be_strict_or_kafka(semantics: Any) -> None:
    with pytest.raises(BuildError, match='choose "strict" or "kafka"'):
        finals(TEN, semantics=semantics)


def test_windowed_by_wants_windows() -> None:
    for wrong in (None, 10, "10s", TimeWindows):
        with pytest.raises(BuildError, match="not a window definition"):
            finals(wrong)


def test_sessions_need_a_merge() -> None:
    windows = SessionWindows.with_gap(5).with_grace(0)
    with pytest.raises(BuildError, match="merge"):
        WindowTestDriver(lambda r: r.group_by_key().windowed_by(windows).aggregate(int, lambda a, v: a + v))


def test_functions_must_be_callable() -> None:
    for build in (
        lambda r: r.group_by_key().windowed_by(TEN).reduce("max"),
        lambda r: r.group_by_key().windowed_by(TEN).aggregate(0, lambda a, v: a),
        lambda r: r.group_by_key().windowed_by(TEN).aggregate(int, None),
        lambda r: r.group_by_key().count().filter(None),
        lambda r: r.group_by_key().count().map_values(3),
        lambda r: r.key_by("city"),
    ):
        with pytest.raises(BuildError, match="not callable"):
            WindowTestDriver(build)


def test_suppress_wants_a_suppression_and_a_buffer() -> None:
    with pytest.raises(BuildError, match="does not say when"):
        WindowTestDriver(lambda r: r.to_table().suppress("10s"))
    with pytest.raises(BufferPolicyError, match="is not a buffer"):
        Suppressed.until_time_limit("10s", 100)  # type: ignore[arg-type]


def test_names_must_differ_and_idle_timeouts_agree() -> None:
    with pytest.raises(BuildError, match="is used by another step"):
        WindowTestDriver(lambda r: r.group_by_key().windowed_by(TEN).count(name="x").suppress(CLOSED.with_name("x")))
    with pytest.raises(BuildError, match="is used by another step"):
        WindowTestDriver(lambda r: r.to_table(name="x").to_stream().to_table(name="x"))
    with pytest.raises(BuildError, match="one idle timeout"):
        WindowTestDriver(
            lambda r: r.group_by_key().windowed_by(TEN, idle_after="1s").count().suppress(CLOSED, idle_after="2s")
        )


def test_what_is_no_part_of_the_computation_is_an_error() -> None:
    with pytest.raises(BuildError, match="return the table or stream"):
        WindowTestDriver(lambda records: None)  # type: ignore[arg-type,return-value]


@pytest.mark.parametrize("timestamp", [None, 1.5, "12", True, 2**63, -(2**63) - 1])
def test_a_timestamp_must_be_whole_milliseconds(timestamp: Any) -> None:
    with pytest.raises(InvalidTimestamp, match="whole milliseconds"):
        Record("a", 1, timestamp)


def test_a_timestamp_may_be_any_integer_type() -> None:
    numpy = pytest.importorskip("numpy")
    record = Record("a", 1, numpy.int64(5))
    assert type(record.timestamp) is int


@pytest.mark.parametrize("element", [1, "text", None, ("a", 1, 5), {"key": "a"}])
def test_an_element_that_is_no_record_is_named(element: Any) -> None:
    driver = finals(TEN)
    with pytest.raises(InvalidRecord, match="map your elements to Record"):
        driver.pipe_all([element])


def _failing(windows: Any, at: str) -> WindowTestDriver:
    def fail(*arguments: Any) -> Any:
        raise ZeroDivisionError("no")

    def add(total: int, value: int) -> int:
        return fail() if value == 0 and at == "add" else total + value

    return WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(windows).aggregate(
                fail if at == "init" else int, add, fail if at == "merge" else lambda a, b: a + b
            ).suppress(CLOSED)
        )
    )  # fmt: skip


@pytest.mark.parametrize(
    ("windows", "at", "start", "end"),
    [
        (TEN, "init", 10, 20),
        (TEN, "add", 10, 20),
        (TEN.advance_by(5), "add", 10, 20),
        (SessionWindows.with_gap(5).with_grace(0), "add", 12, 15),
        (SessionWindows.with_gap(5).with_grace(0), "merge", 12, 15),
        (SlidingWindows.of_difference(10).with_grace(100), "add", 13, 23),
    ],
)
def test_an_aggregator_that_raises_is_named_with_key_and_window(windows: Any, at: str, start: int, end: int) -> None:
    driver = _failing(windows, at)
    with pytest.raises(AggregationFailed, match="key 'a' in window") as failed:
        driver.pipe("a", 1, 12)
        driver.pipe("a", 0, 15)
    error = failed.value
    assert isinstance(error, StageFailed)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert (error.key, error.start, error.end) == (("a", start, end))
    assert isinstance(error.element, Record)


def test_a_function_on_a_table_that_raises_is_named_too() -> None:
    for build in (
        lambda r: r.group_by_key().windowed_by(TEN).count().filter(lambda n: 1 / 0),
        lambda r: r.group_by_key().windowed_by(TEN).count().map_values(lambda n: 1 / 0),
        lambda r: r.key_by(lambda record: 1 / 0).windowed_by(TEN).count(),
        lambda r: r.map(lambda record: 1 / 0).group_by_key().windowed_by(TEN).count(),
    ):
        with pytest.raises(OperatorFailed, match="key 'a'"):
            WindowTestDriver(build).pipe("a", 1, 12)


@pytest.mark.parametrize(
    "windows",
    [TEN, TEN.advance_by(5), SessionWindows.with_gap(5).with_grace(0), SlidingWindows.of_difference(10).with_grace(0)],
)
def test_a_failing_row_can_be_skipped_and_leaves_no_trace(windows: Any) -> None:
    dead: list[OperatorFailed] = []

    def add(values: list[int], value: int) -> list[int]:
        values.append(value)
        if value == 0:
            raise ZeroDivisionError
        return values

    def build(records: Any) -> Any:
        return records.group_by_key().windowed_by(windows).aggregate(list, add, lambda a, b: a + b).suppress(CLOSED)

    def take(failure: OperatorFailed) -> bool:
        dead.append(failure)
        return True

    driver = WindowTestDriver(build, on_failure=take)
    clean = WindowTestDriver(build)
    rows = [("a", 1, 12), ("a", 0, 13), ("a", 2, 14), ("b", 0, 14), ("z", 1, 1_000)]
    got = [driver.pipe_all([Record(*row) for row in rows])]
    assert got == [clean.pipe_all([Record(*row) for row in rows if row[1] != 0])]
    assert [failure.element.value for failure in dead] == [0, 0]  # type: ignore[attr-defined]
    assert driver.buffered.records == clean.buffered.records


def test_unhashable_keys_are_compared_by_their_bytes() -> None:
    driver = finals(TEN)
    pipe_all(driver, [(["a", 1], 1, 1), (["a", 1], 1, 2), ({"k": 1}, 1, 2)])
    assert driver.pipe("z", 1, 10) == [W({"k": 1}, 0, 10, 1, 2), W(["a", 1], 0, 10, 2, 2)]


def test_keys_that_are_equal_in_python_but_not_in_bytes_are_different() -> None:
    driver = finals(TEN)
    for key in (1, 1.0, True, 0.0, -0.0):
        driver.pipe(key, 1, 1)
    assert driver.buffered.records == 5


def test_keys_of_the_same_bytes_are_the_same() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("é", 1, 1), ("é".encode(), 1, 2)])
    assert driver.pipe("z", 1, 10) == [W("é", 0, 10, 2, 2)]


@pytest.mark.parametrize("key", [object(), {1, 2}, "\ud800", [object()]])
def test_a_key_without_bytes_is_an_error_that_names_it(key: Any) -> None:
    for driver in (
        finals(TEN),
        limited(5),
        finals(SessionWindows.with_gap(1).with_grace(0)),
        finals(SlidingWindows.of_difference(1).with_grace(0)),
    ):
        with pytest.raises(InvalidRecord, match="key"):
            driver.pipe(key, 1, 1)


def test_rows_after_the_end_are_late() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 5)
    driver.end_of_input()
    assert driver.pipe("a", 1, 5) == []
    assert driver.dropped_late == 1


def test_records_are_immutable() -> None:
    record, windowed = Record("a", 1, 5), W("a", 0, 10, 1, 5)
    for value in (record, windowed):
        with pytest.raises(AttributeError, match="replace"):
            value.key = "b"
        with pytest.raises(AttributeError):
            del value.key
    assert record.replace(value=2) == Record("a", 2, 5)
    assert isinstance(windowed.replace(value=2), WindowedRecord)
