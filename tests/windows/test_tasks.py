"""One task per partition, and the order of several inputs."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.windows import InvalidRecord, Record, RecordContext, RestoreError, TimeWindows
from streamactors.windows.stage.head_time import HeadTimeOrder
from streamactors.windows.stage.partition_tasks import ALONE, PartitionTasks
from streamactors.windows.topology.chain import Records, tasks_of
from tests.windows.words import CLOSED, W

TEN = TimeWindows.of_size(10).with_grace(0)


def tasks(**options: Any) -> PartitionTasks:
    table = Records().group_by_key().windowed_by(TEN, idle_after="1s", late=True).count().suppress(CLOSED)
    return PartitionTasks(tasks_of(table.to_stream(), changelog=True), **options)


def row(key: str, timestamp: int, partition: int | None, offset: int = 0) -> Record:
    return Record(key, 1, timestamp, None if partition is None else RecordContext("input", partition, offset))


def process(under_test: PartitionTasks, *rows: Any) -> list[Any]:
    out: list[Any] = []
    under_test.process_into(rows, out)
    return out


def test_K_19_a_row_belongs_to_the_partition_of_its_context() -> None:
    under_test = tasks()
    assert process(under_test, row("a", 5, 0), row("b", 500, 1), row("a", 6, 0)) == []
    assert sorted(under_test.tasks) == [0, 1]
    assert process(under_test, row("z", 10, 0)) == [W("a", 0, 10, 2, 6)]
    assert under_test.tasks[0].metrics.dropped_late == 0


def test_K_19_results_carry_the_partition_on() -> None:
    under_test = tasks()
    (result,) = process(under_test, row("a", 5, 3), row("z", 10, 3))
    assert result.context.partition == 3


def test_K_19_replace_keeps_the_context_and_a_new_record_without_it_is_an_error() -> None:
    under_test = tasks()
    process(under_test, row("a", 5, 0).replace(value=7))
    with pytest.raises(InvalidRecord, match=r"record\.replace\(value="):
        process(under_test, Record("a", 1, 5))


def test_K_19_a_context_among_rows_without_one_is_an_error_too() -> None:
    under_test = tasks()
    process(under_test, row("a", 5, None))
    assert list(under_test.tasks) == [ALONE]
    with pytest.raises(InvalidRecord, match="all rows of a stream have one, or none has"):
        process(under_test, row("a", 5, 0))


def test_a_stream_without_contexts_is_one_task() -> None:
    under_test = tasks()
    assert process(under_test, row("a", 5, None), row("b", 10, None)) == [W("a", 0, 10, 1, 5)]


def test_an_assigned_partition_is_restored_and_a_revoked_one_flushes_nothing() -> None:
    first, second = tasks(application="app", partitions=2), tasks(application="app", partitions=2)
    first.assigned(1)
    process(first, row("a", 5, 1))
    changes = first.changes(1)
    first.revoked(1)
    assert first.tasks == {}
    second.assigned(1, changes)
    assert process(second, row("z", 10, 1)) == [W("a", 0, 10, 1, 5)]
    with pytest.raises(RestoreError, match="partition 1, this task has 0"):
        second.assigned(0, changes)


def test_a_row_of_a_partition_that_is_not_assigned_is_an_error() -> None:
    under_test = tasks()
    under_test.assigned(0)
    with pytest.raises(InvalidRecord, match="partition 4, which is not assigned here"):
        process(under_test, row("a", 5, 4))
    with pytest.raises(InvalidRecord, match="has no context"):
        process(under_test, row("a", 5, None))


def test_silence_and_end_are_told_per_partition() -> None:
    under_test = tasks()
    process(under_test, row("a", 5, 0), row("b", 5, 1))
    assert under_test.idle(0, 10_000) == [W("a", 0, 10, 1, 5)]
    assert under_test.idle(7, 10_000) == []
    assert under_test.end_of_input(1) == [W("b", 0, 10, 1, 5)]
    assert under_test.end_of_input(7) == []
    process(under_test, row("c", 5_000_000, 2))
    assert [each.key for each in under_test.end_of_input()] == ["c"]


def test_late_rows_of_all_partitions_come_together() -> None:
    under_test = tasks()
    process(under_test, row("a", 500, 0), row("a", 5, 0), row("b", 500, 1), row("b", 5, 1))
    assert [late.record.key for late in under_test.take_late()] == ["a", "b"]


def records(*timestamps: int) -> list[Record]:
    return [Record("k", 1, timestamp) for timestamp in timestamps]


def timestamps(taken: list[Any]) -> list[int]:
    return [each.timestamp for each in taken]


def all_silent(order: HeadTimeOrder, *inputs: object) -> HeadTimeOrder:
    """The broker has told that it has no more of these."""
    for each in inputs:
        order.silent(each)
    return order


def test_T_4_the_smallest_head_timestamp_goes_first() -> None:
    order = HeadTimeOrder(["left", "right"], max_idle_ms=0)
    order.add("left", records(1, 9, 3))
    order.add("right", records(2, 4))
    assert timestamps(order.take(0)) == [1, 2, 4]
    all_silent(order, "right")
    assert timestamps(order.take(0)) == [9, 3]  # heads only: 3 is behind 9 in its input


def test_T_4_a_silent_input_is_waited_for_but_not_longer_than_max_idle() -> None:
    order = HeadTimeOrder(["left", "right"], max_idle_ms=100)
    order.add("left", records(1, 5))
    assert order.take(500) == []
    assert order.deadline_ms() is None, "it may have rows that are on their way"
    all_silent(order, "right")
    assert order.take(1_000) == []
    assert order.deadline_ms() == 1_100
    assert order.take(1_099) == []
    assert timestamps(order.take(1_100)) == [1, 5]
    assert order.deadline_ms() is None


def test_T_4_a_row_in_time_ends_the_wait_and_the_next_one_starts_anew() -> None:
    order = all_silent(HeadTimeOrder(["left", "right"], max_idle_ms=100), "right")
    order.add("left", records(1, 5))
    order.take(0)
    order.add("right", records(3))
    assert timestamps(order.take(50)) == [1, 3]
    all_silent(order, "right")
    assert order.take(60) == []
    assert order.deadline_ms() == 160
    assert timestamps(order.take(160)) == [5]


def test_T_4_several_silent_inputs_are_waited_for_at_the_same_time() -> None:
    order = all_silent(HeadTimeOrder(["a", "b", "c"], max_idle_ms=100), "b", "c")
    order.add("a", records(1))
    order.take(0)
    assert timestamps(order.take(100)) == [1]


def test_T_4_an_input_that_has_ended_is_not_waited_for() -> None:
    order = HeadTimeOrder(["left", "right"], max_idle_ms=1_000_000)
    order.add("left", records(1))
    order.add("right", records(0))
    order.end("right")
    assert timestamps(order.take(0)) == [0, 1]


def test_T_4_equal_timestamps_go_in_the_order_of_the_inputs() -> None:
    order = HeadTimeOrder(["left", "right"], max_idle_ms=0)
    order.add("right", [Record("right", 1, 5)])
    order.add("left", [Record("left", 1, 5)])
    all_silent(order, "left", "right")
    assert [each.key for each in order.take(0)] == ["left", "right"]


@given(st.lists(st.lists(st.integers(0, 20)), min_size=1, max_size=4))
def test_T_4_nothing_is_lost_and_each_input_keeps_its_order(inputs: list[list[int]]) -> None:
    order = HeadTimeOrder(range(len(inputs)), max_idle_ms=0)
    for name, stamps in enumerate(inputs):
        order.add(name, [Record(name, at, stamp) for at, stamp in enumerate(stamps)])
    taken: list[Any] = list(all_silent(order, *range(len(inputs))).take(0))
    for name, stamps in enumerate(inputs):
        assert [each.timestamp for each in taken if each.key == name] == stamps
    if all(stamps == sorted(stamps) for stamps in inputs):
        assert timestamps(taken) == sorted(timestamps(taken))
