"""Suppression: what is held, when it goes, in which order, what it weighs."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import (
    BufferConfig,
    BufferFull,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TimeWindows,
)
from tests.windows.words import CLOSED, UNBOUNDED, R, W, finals, limited, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)
LIMIT = Suppressed.until_time_limit


def suppressed(windows: Any, suppression: Suppressed, **options: Any) -> WindowTestDriver:
    return WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(windows, **options).count().suppress(suppression)
    )


def buffered_apart(windows: Any, **options: Any) -> WindowTestDriver:
    """Final results through a buffer of its own: a map in between keeps the aggregation from doing it itself."""
    return WindowTestDriver(
        lambda records: (
            records.group_by_key().windowed_by(windows, **options).count().map_values(lambda n: n).suppress(CLOSED)
        )
    )  # fmt: skip


def test_S_1_until_window_closes_waits_for_end_plus_grace() -> None:
    for driver in (
        finals(TimeWindows.of_size(10).with_grace(7)),
        buffered_apart(TimeWindows.of_size(10).with_grace(7)),
    ):
        driver.pipe("a", 1, 3)
        assert driver.pipe("z", 1, 16) == []
        assert driver.pipe("z", 1, 17) == [W("a", 0, 10, 1, 3)]


def test_S_1_for_a_session_it_waits_for_gap_and_grace() -> None:
    for build in (finals, buffered_apart):
        kafka = build(SessionWindows.with_gap(5).with_grace(7), semantics="kafka")
        kafka.pipe("a", 1, 100)
        assert kafka.pipe("z", 1, 111) == []
        assert kafka.pipe("z", 1, 112) == [W("a", 100, 100, 1, 100)]


def test_S_1_until_time_limit_counts_from_the_updates_timestamp() -> None:
    driver = limited(10)
    driver.pipe("a", 1, 100)
    assert driver.pipe("b", 1, 109) == []
    assert driver.pipe("c", 1, 110) == [R("a", 1, 100)]


def test_S_1_until_time_limit_works_on_windowed_tables() -> None:
    driver = suppressed(TimeWindows.of_size(100).with_grace(0), LIMIT(10, UNBOUNDED))
    pipe_all(driver, [("a", 1, 0), ("a", 1, 5)])
    assert driver.pipe("a", 1, 10) == [W("a", 0, 100, 3, 10)]


def test_S_2_the_update_is_put_before_what_is_due_goes() -> None:
    driver = limited(10)
    driver.pipe("a", 1, 100)
    assert driver.pipe("a", 2, 110) == [R("a", 2, 110)]  # the row that makes it due is in it


def test_S_2_bounds_are_looked_at_after_what_is_due_has_gone() -> None:
    driver = limited(10, BufferConfig.max_records(1).shut_down_when_full())
    driver.pipe("a", 1, 100)
    assert driver.pipe("b", 1, 110) == [R("a", 1, 100)]
    with pytest.raises(BufferFull):
        driver.pipe("c", 1, 111)


def test_S_3_a_limit_of_zero_passes_everything_at_once() -> None:
    driver = limited(0)
    assert driver.pipe("a", 1, 100) == [R("a", 1, 100)]
    assert driver.pipe("a", 2, 100) == [R("a", 2, 100)]
    assert driver.buffered == (0, 0)


def test_S_3_an_update_older_than_the_limit_goes_at_once() -> None:
    driver = limited(10)
    driver.pipe("a", 1, 100)
    assert driver.pipe("b", 1, 90) == [R("b", 1, 90)]
    assert driver.pipe("c", 1, 91) == []


def test_S_4_first_buffer_time_is_kept() -> None:
    driver = limited(10)
    pipe_all(driver, [("a", 1, 100), ("a", 2, 108)])
    assert driver.pipe("z", 1, 110) == [R("a", 2, 108)]


def test_S_4_what_left_is_forgotten_and_starts_a_new_timer() -> None:
    driver = limited(10)
    pipe_all(driver, [("a", 1, 100), ("z", 1, 110)])
    driver.pipe("a", 2, 111)
    assert [each.key for each in driver.pipe("y", 1, 120)] == ["z"]
    assert driver.pipe("y", 1, 121) == [R("a", 2, 111)]


def test_S_4_there_is_one_entry_per_key_and_window() -> None:
    driver = buffered_apart(TEN.advance_by(5))
    pipe_all(driver, [("a", 1, 7), ("a", 1, 8), ("b", 1, 8)])
    assert driver.buffered.records == 4


def test_S_5_the_check_runs_per_update_so_a_row_may_release_an_older_value_of_its_second_window() -> None:
    driver = suppressed(TimeWindows.of_size(20).advance_by(10).with_grace(100), LIMIT(5, UNBOUNDED))
    driver.pipe("a", 1, 12)  # [0, 20) and [10, 30), both from 12 on
    assert driver.pipe("a", 1, 17) == [
        W("a", 0, 20, 2, 17),  # the first update moves the time: its own entry is due …
        W("a", 10, 30, 1, 12),  # … and that of the second window, before the second update is put
    ]
    assert driver.buffered.records == 1


def test_S_6_release_order_is_buffer_time_then_key_bytes() -> None:
    driver = limited(10)
    pipe_all(driver, [("b", 1, 101), ("é", 1, 100), ("a", 1, 101), ("z", 1, 100)])
    assert [each.key for each in driver.pipe("y", 1, 200)] == ["z", "é", "a", "b", "y"][:4]


@pytest.mark.parametrize("build", [finals, buffered_apart])
def test_S_6_ties_compare_unsigned_bytes_of_key_and_window(build: Any) -> None:
    driver = build(TEN)
    keys = ["😀", "\uffff", "é", "a\x00", "ab", "a", "b"]
    for key in keys:
        driver.pipe(key, 1, 11)
    by_bytes = sorted(keys, key=lambda key: key.encode() + (10).to_bytes(8, "big"))
    assert by_bytes.index("a\x00") < by_bytes.index("a")  # the window decides between a key and its prefix
    assert [each.key for each in driver.pipe("x", 1, 20)] == by_bytes


@pytest.mark.parametrize("build", [finals, buffered_apart])
def test_S_6_integer_keys_are_eight_bytes_big_endian_so_negative_ones_come_last(build: Any) -> None:
    driver = build(TEN)
    for key in (-1, 256, 3, -(2**63), 0):
        driver.pipe(key, 1, 1)
    assert [each.key for each in driver.pipe(99, 1, 10)] == [0, 3, 256, -(2**63), -1]


def test_S_6_sessions_of_one_key_go_by_end_then_start() -> None:
    driver = buffered_apart(SessionWindows.with_gap(1).with_grace(50))
    pipe_all(driver, [("b", 1, 100), ("a", 1, 100), ("a", 1, 90)])
    assert [(each.key, each.end) for each in driver.pipe("z", 1, 500)] == [("a", 90), ("a", 100), ("b", 100)]


def test_S_7_until_window_closes_drops_what_ended_as_none() -> None:
    def build(records: Any) -> Any:
        return records.group_by_key().windowed_by(TEN).count().filter(lambda n: n % 2).suppress(CLOSED)

    driver = WindowTestDriver(build)
    pipe_all(driver, [("a", 1, 1), ("a", 1, 2), ("b", 1, 2)])
    assert driver.buffered.records == 2  # the null entry of "a" keeps its place until it is due
    assert driver.pipe("z", 1, 10) == [W("b", 0, 10, 1, 2)]
    assert driver.buffered.records == 1


def test_S_7_until_time_limit_forwards_tombstones() -> None:
    driver = limited(10)
    pipe_all(driver, [("a", 1, 100), ("a", None, 101)])
    assert driver.pipe("z", 1, 110) == [R("a", None, 101)]


def test_S_8_equality_with_a_bound_is_allowed() -> None:
    driver = limited(1_000, BufferConfig.max_records(2).shut_down_when_full())
    pipe_all(driver, [("a", 1, 1), ("b", 1, 2), ("a", 2, 3)])
    assert driver.buffered.records == 2
    with pytest.raises(BufferFull):
        driver.pipe("c", 1, 4)


def test_S_8_emit_early_lets_the_oldest_go_and_maybe_the_newcomer() -> None:
    driver = limited(1_000, BufferConfig.max_records(2).emit_early_when_full())
    pipe_all(driver, [("a", 1, 11), ("b", 1, 12)])
    assert driver.pipe("c", 1, 13) == [R("a", 1, 11)]
    assert driver.pipe("d", 1, 10) == [R("d", 1, 10)]  # the oldest is the row itself


def test_S_8_emit_early_by_bytes_lets_go_as_many_as_needed() -> None:
    one = 8 + 1 + 1 + 20 + 5  # a key of one byte, no prior, a value of one byte, topic "input"
    driver = limited(1_000, BufferConfig.max_bytes(3 * one).emit_early_when_full())
    pipe_all(driver, [("a", "x", 1), ("b", "x", 2), ("c", "x", 3)])
    assert driver.buffered == (3, 3 * one)
    assert driver.pipe("d", "x" * (1 + one), 4) == [R("a", "x", 1), R("b", "x", 2)]


def test_S_8_a_bound_of_zero_records_passes_everything_through() -> None:
    driver = limited(1_000, BufferConfig.max_records(0))
    assert driver.pipe("a", 1, 1) == [R("a", 1, 1)]
    assert driver.pipe("a", None, 2) == [R("a", None, 2)]


def test_S_8_a_bound_without_a_policy_shuts_down_finals_and_emits_limits_early() -> None:
    driver = suppressed(TEN, Suppressed.until_window_closes(BufferConfig.max_records(1)))
    driver.pipe("a", 1, 1)
    with pytest.raises(BufferFull):
        driver.pipe("b", 1, 1)
    assert len(pipe_all(limited(1_000, BufferConfig.max_records(1)), [("a", 1, 1), ("b", 1, 2)])) == 1


def test_S_9_bytes_of_an_entry_are_kafkas() -> None:
    driver = limited(1_000)
    driver.pipe("key", "value", 1)
    assert driver.buffered.bytes == 8 + 3 + 5 + 8 + 8 + len("input") + 4
    driver.pipe("key", "longer value", 2)  # prior null, old "value" differs from it: it counts
    assert driver.buffered.bytes == 8 + 3 + 5 + 12 + 8 + 8 + 5 + 4


def test_S_9_old_counts_nothing_where_it_equals_prior() -> None:
    driver = finals(TimeWindows.of_size(100).with_grace(0))
    base = 8 + (1 + 8) + 8 + 8 + 20 + 5  # prior 0, new 1
    driver.pipe("a", 1, 1)
    assert driver.buffered.bytes == base
    driver.pipe("a", 1, 2)  # old 1 differs from prior 0
    assert driver.buffered.bytes == base + 8


def test_S_9_headers_count_names_and_values() -> None:
    driver = limited(1_000)
    driver.pipe("a", "x", 1, headers=[("name", b"1234"), ("empty", None)])
    assert driver.buffered.bytes == 8 + 1 + 1 + 20 + 5 + (4 + 4) + 5


def test_S_9_values_are_measured_by_their_serdes() -> None:
    for value, size in [(1, 8), (2.5, 8), (b"abc", 3), ("é", 2), (True, 1), ([1, 2], 3), (2**70, 12)]:
        driver = limited(1_000)
        driver.pipe("a", value, 1)
        assert driver.buffered.bytes == 8 + 1 + size + 20 + 5, value


def test_S_9_the_topic_takes_one_byte_a_character() -> None:
    driver = WindowTestDriver(lambda records: records.to_table().suppress(LIMIT(99, UNBOUNDED)), topic="déjà")
    driver.pipe("a", "x", 1)
    assert driver.buffered.bytes == 8 + 1 + 1 + 20 + 4


@pytest.mark.parametrize("build", [finals, buffered_apart])
def test_S_10_a_result_has_value_timestamp_and_context_of_its_last_update(build: Any) -> None:
    driver = build(TEN)
    driver.pipe("a", 1, 8, headers=[("h", b"1")])
    driver.pipe("a", 1, 3, headers=[("h", b"2")])
    (result,) = driver.pipe("z", 1, 50, headers=[("h", b"3")])
    assert result == W("a", 0, 10, 2, 8)
    assert result.context == RecordContext("input", 0, 1, (("h", b"2"),))


@pytest.mark.parametrize("build", [finals, buffered_apart])
def test_S_10_sessions_forward_no_headers(build: Any) -> None:
    driver = build(SessionWindows.with_gap(5).with_grace(0))
    driver.pipe("a", 1, 8, headers=[("h", b"1")])
    (result,) = driver.pipe("z", 1, 50, headers=[("h", b"3")])
    assert result.context == RecordContext("input", 0, 0)


def test_S_11_the_suppressed_table_shows_what_was_before_while_an_entry_is_held() -> None:
    driver = limited(10)
    driver.pipe("a", "one", 100)
    assert driver.read("a") is None
    driver.pipe("z", "x", 110)
    assert driver.read("a") == ("one", 100)  # out: the parent's value
    driver.pipe("a", "two", 111)
    assert driver.read("a") == ("one", None)  # held: the value before, timestamp unknown
    assert driver.read("nobody") is None


@pytest.mark.parametrize("build", [finals, buffered_apart])
def test_S_11_of_an_open_window_it_shows_the_initial_value(build: Any) -> None:
    driver = build(TimeWindows.of_size(10).with_grace(5))
    pipe_all(driver, [("a", 1, 1), ("a", 1, 2)])
    assert driver.read("a", 0, 10) == (0, None)
    driver.pipe("z", 1, 15)
    assert driver.read("a", 0, 10) == (2, 2)  # out, and still within retention


def test_S_14_names_of_node_store_and_changelog() -> None:
    from streamactors.windows.definitions.names import changelog_topic

    driver = suppressed(TEN, Suppressed.until_window_closes(BufferConfig.max_records(0)).with_name("finals"))
    with pytest.raises(BufferFull) as full:
        driver.pipe("a", 1, 1)
    assert full.value.node == "finals"
    assert changelog_topic("app", "finals-store") == "app-finals-store-changelog"


def test_S_14_without_a_name_node_and_store_take_two_running_numbers() -> None:
    from streamactors.windows.topology.nodes.table_nodes import TableNode

    seen: list[Any] = []

    def build(records: Any) -> Any:
        table = records.group_by_key().windowed_by(TEN).count().suppress(CLOSED).map_values(str)
        named = records.group_by_key().windowed_by(TEN).count(name="mine").suppress(CLOSED)
        seen.extend([table, named])
        return table

    WindowTestDriver(build)
    nodes = [[node.name for node in table.topology.nodes if isinstance(node, TableNode)] for table in seen]
    assert nodes[0] == ["count-0000000000", "suppress-0000000002", "table-map-values-0000000004"]
    assert list(seen[0].topology.stores) == ["count-store-0000000001", "suppress-store-0000000003"]
    assert nodes[1] == ["mine", "suppress-0000000000"]
    assert list(seen[1].topology.stores) == ["mine-store", "suppress-store-0000000001"]


def test_the_example_of_two_minute_windows_with_two_minutes_of_grace() -> None:
    # Rows of 10:00:00 to 10:04:00; the row at 10:04:00 reaches end + grace of the first window to the millisecond.
    minute = 60_000
    ten = 600 * minute
    driver = finals(TimeWindows.of_size("2m").with_grace("2m"))
    rows = [
        ("A", ten),
        ("A", ten + minute),
        ("B", ten + minute),
        ("A", ten + 3 * minute),
        ("B", ten + 1),
        ("A", ten + 4 * minute - 1),
    ]
    assert pipe_all(driver, [(key, 1, at) for key, at in rows]) == []
    assert driver.pipe("C", 1, ten + 4 * minute) == [
        W("A", ten, ten + 2 * minute, 2, ten + minute),
        W("B", ten, ten + 2 * minute, 2, ten + minute),
    ]
    assert driver.pipe("A", 1, ten + 5) == []
    assert driver.dropped_late == 1
    assert driver.buffered.records == 2


@pytest.mark.parametrize(
    "windows", [TEN, SessionWindows.with_gap(5).with_grace(0), SlidingWindows.of_difference(5).with_grace(0)]
)
def test_results_of_until_window_closes_are_marked_final(windows: Any) -> None:
    for driver in (finals(windows), buffered_apart(windows)):
        driver.pipe("a", 1, 8)
        released = driver.pipe("z", 1, 500)
        assert released
        assert all(each.is_final for each in released)
