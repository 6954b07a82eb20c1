"""State as changelog entries: what is written, what is restored, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from streamactors.codec import CodecError, dumps, loads
from streamactors.testing.window_test_driver import WindowTestDriver
from streamactors.windows import (
    Record,
    RestoreError,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.state.store_log import META_KEY, Change
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory
from tests.windows.words import CLOSED, UNBOUNDED, R, W, finals, limited, pipe_all

TEN = TimeWindows.of_size(10).with_grace(0)


def test_S_12_on_commit_each_changed_key_is_written_once_and_a_tombstone_if_it_left() -> None:
    driver = limited(10)
    pipe_all(driver, [("a", 1, 100), ("a", 2, 101), ("a", 3, 102), ("b", 1, 102)])
    entries = [change for change in driver.changes() if change.store.startswith("suppress") and change.key != META_KEY]
    assert len(entries) == 2
    assert all(entry.value is not None for entry in entries)
    assert len(driver.pipe("z", 1, 111)) == 1
    left = [change for change in driver.changes() if change.store.startswith("suppress") and change.key != META_KEY]
    assert sorted((change.key[-1:], change.value is None) for change in left) == [(b"a", True), (b"z", False)]


def test_S_12_what_came_and_went_between_two_commits_is_not_written() -> None:
    driver = finals(TEN)
    pipe_all(driver, [("a", 1, 1), ("b", 1, 1), ("z", 1, 10)])
    assert {change.key[1:2] for change in driver.changes() if change.key != META_KEY} == {b"z"}


def test_S_12_nothing_changed_nothing_written() -> None:
    driver = finals(TEN)
    driver.pipe("a", 1, 1)
    assert driver.changes()
    assert driver.changes() == []


def test_S_12_restored_entries_keep_their_buffer_times() -> None:
    driver = limited(10)
    pipe_all(driver, [("a", 1, 100), ("a", 2, 105)])
    driver.restart(driver.changes())
    assert driver.buffered.records == 1
    assert driver.pipe("z", 1, 110) == [R("a", 2, 105)]


def test_S_12_it_can_be_switched_off_and_costs_nothing_then() -> None:
    stream = Records().group_by_key().windowed_by(TEN).count().suppress(CLOSED).to_stream()
    task = tasks_of(stream)()
    task.process_chunk([Record("a", 1, 1)])
    assert [change for change in task.changes() if change.key != META_KEY] == []


def test_S_13_the_buffer_belongs_to_the_task_and_the_new_owner_restores_it() -> None:
    factory = _factory()
    first, second = factory(TaskIdentity("app", 3, 4)), factory(TaskIdentity("app", 3, 4))
    first.process_chunk([Record("a", 1, 1), Record("a", 1, 2)])
    second.restore(first.changes())
    assert second.process_chunk([Record("z", 1, 10)]) == [W("a", 0, 10, 2, 2)]


def test_S_13_records_over_the_bound_after_restore_are_noticed_with_the_next_update() -> None:
    from streamactors.windows import BufferConfig

    def build(bound: Any) -> WindowTestDriver:
        return WindowTestDriver(lambda records: records.to_table().suppress(Suppressed.until_time_limit(1_000, bound)))

    wide, narrow = build(UNBOUNDED), build(BufferConfig.max_records(1))
    pipe_all(wide, [("a", 1, 1), ("b", 1, 2), ("c", 1, 3)])
    narrow.restart(wide.changes())
    assert narrow.buffered.records == 3
    assert [each.key for each in narrow.pipe("d", 1, 4)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "windows", [TEN, SessionWindows.with_gap(5).with_grace(0), SlidingWindows.of_difference(5).with_grace(0)]
)
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_R_5_stream_time_is_persisted_so_a_late_row_stays_late(windows: Any, semantics: Any) -> None:
    driver = finals(windows, semantics=semantics)
    pipe_all(driver, [("a", 1, 8), ("z", 1, 1_000)])
    driver.restart(driver.changes())
    assert driver.pipe("a", 1, 8) == []
    assert driver.dropped_late == 1


@pytest.mark.parametrize("how", ["suppress", "apart", "emit"])
@pytest.mark.parametrize(
    "windows", [TEN, SessionWindows.with_gap(5).with_grace(0), SlidingWindows.of_difference(5).with_grace(0)]
)
def test_after_the_end_of_an_input_a_restart_goes_on_and_flushed_windows_stay_closed(windows: Any, how: str) -> None:
    def build(records: Any) -> Any:
        table = records.group_by_key().windowed_by(windows).count()
        if how == "emit":
            return table.emit_on_window_close()
        return (table if how == "suppress" else table.map_values(lambda n: n)).suppress(CLOSED)

    driver = WindowTestDriver(build)
    driver.pipe("a", 1, 8)
    (flushed,) = driver.end_of_input()
    driver.restart(driver.changes())
    assert driver.pipe("a", 1, 8) == []
    assert driver.dropped_late == 1  # its final result is out
    released = pipe_all(driver, [("b", 1, 30), ("z", 1, 1_000)])
    assert [each.key for each in released] == ["b"]  # time went on from the rows, not from the end of all time
    assert flushed.key == "a"


def test_after_the_end_of_an_input_updates_that_are_not_final_go_on_where_they_were() -> None:
    driver = WindowTestDriver(lambda records: records.group_by_key().windowed_by(TEN).count())
    driver.pipe("a", 1, 8)
    driver.end_of_input()
    driver.restart(driver.changes())
    assert driver.pipe("a", 1, 9) == [W("a", 0, 10, 2, 9)]


def _factory(build: Callable[[Any], Any] | None = None) -> TaskFactory:
    stream = Records()
    table = build(stream) if build else stream.group_by_key().windowed_by(TEN).count(name="n").suppress(CLOSED)
    return tasks_of(table.to_stream(), changelog=True)


def _written(**identity: Any) -> list[Change]:
    task = _factory()(TaskIdentity(**({"application": "app"} | identity)))
    task.process_chunk([Record("a", 1, 1)])
    return task.changes()


def restore(changes: list[Change], factory: TaskFactory | None = None) -> None:
    (factory or _factory())(TaskIdentity("app")).restore(changes)


def test_E_5_a_changelog_of_another_application_partition_or_partition_count_is_refused() -> None:
    restore(_written())
    for identity, message in [
        ({"application": "other"}, "group 'other', this task has 'app'"),
        ({"partition": 2}, "partition 2, this task has 0"),
        ({"partitions": 6}, "partition count 6, this task has 1"),
    ]:
        with pytest.raises(RestoreError, match=message):
            restore(_written(**identity))


def test_E_5_a_changelog_of_another_definition_is_refused() -> None:
    other = TimeWindows.of_size(20).with_grace(0)
    for build in (
        lambda r: r.group_by_key().windowed_by(other).count(name="n").suppress(CLOSED),
        lambda r: r.group_by_key().windowed_by(TEN).reduce(max, name="n").suppress(CLOSED),
    ):
        with pytest.raises(RestoreError, match="definition 'count over time windows of 10 ms every 10 ms'"):
            restore(_written(), _factory(build))


def test_a_longer_grace_restores_what_a_shorter_one_wrote() -> None:
    longer = TimeWindows.of_size(10).with_grace(100)
    restore(_written(), _factory(lambda r: r.group_by_key().windowed_by(longer).count(name="n").suppress(CLOSED)))


def test_E_5_an_unknown_format_version_is_refused() -> None:
    changes = _written()
    for at, change in enumerate(changes):
        if change.key == META_KEY:
            assert change.value is not None
            fields = loads(change.value)
            changes[at] = change._replace(value=dumps([99, *fields[1:]]))
    with pytest.raises(RestoreError, match="format version 99, this version reads 1"):
        restore(changes)


def test_E_5_entries_of_an_unknown_store_or_without_meta_data_are_refused() -> None:
    with pytest.raises(RestoreError, match="'elsewhere'"):
        restore([Change("elsewhere", b"\x01x", b"\xc0")])
    with pytest.raises(RestoreError, match="no metadata"):
        restore([change for change in _written() if change.key != META_KEY])


@pytest.mark.parametrize(
    "value", [b"", b"\xc1", b"garbage", b"\x80\x04K\x01.", dumps(7), dumps([1, 2]), dumps({"a": 1})]
)
def test_bytes_that_nobody_wrote_are_refused_and_never_unpickled(value: bytes) -> None:
    changes = _written()
    for at, change in enumerate(changes):
        broken = [*changes[:at], change._replace(value=value), *changes[at + 1 :]]
        with pytest.raises(RestoreError, match="changelog of n-store"):
            restore(broken)
    with pytest.raises(RestoreError, match="which no store writes"):
        restore([*changes, Change("n-store", b"\x07key", value)])


def test_keys_and_values_of_all_kept_types_come_back_exactly() -> None:
    value = [
        None,
        True,
        2**80,
        -(2**63),
        1.5,
        "é",
        b"\xff",
        (1, (2,)),
        {"k": [1], 2: ()},
        Decimal("1.50"),
        datetime(2026, 1, 1, tzinfo=UTC),
    ]
    driver = limited(10)
    for key in (7, "é", b"\xff\x00", (1, "a"), 2**70, 1.5, True):
        driver.pipe(key, value, 100)
    driver.restart(driver.changes())
    released = driver.pipe("z", 1, 110)
    assert {repr(each.key) for each in released} == {"7", "'é'", r"b'\xff\x00'", "(1, 'a')", repr(2**70), "1.5", "True"}
    assert all(repr(each.value) == repr(value) for each in released)


def test_an_empty_changelog_is_a_fresh_start() -> None:
    driver = finals(TEN)
    driver.restart([])
    assert driver.pipe("a", 1, 5) == []
    assert driver.pipe("a", 1, 10) == [W("a", 0, 10, 1, 5)]


def test_a_later_entry_replaces_an_earlier_one_and_a_tombstone_removes_it() -> None:
    driver = finals(TEN)
    log = []
    for key, value, at in [("a", 1, 1), ("a", 1, 2), ("b", 1, 3), ("z", 1, 10)]:
        driver.pipe(key, value, at)
        log += driver.changes()
    driver.restart(log)
    assert driver.buffered.records == 1
    assert driver.end_of_input() == [W("z", 10, 20, 1, 10)]


def test_changelog_topics_are_those_of_the_stores_there_really_are() -> None:
    factory = _factory()  # the suppression needs no store of its own here
    assert factory.changelog_topics("app") == {"n-store": "app-n-store-changelog"}
    apart = _factory(lambda r: r.group_by_key().windowed_by(TEN).count(name="n").map_values(str).suppress(CLOSED))
    assert list(apart.changelog_topics("app").values()) == [
        "app-n-store-changelog", "app-suppress-store-0000000002-changelog",
    ]  # fmt: skip


def test_an_aggregate_that_is_extended_in_place_is_a_bytearray_after_a_restart() -> None:
    # it was bytes after a restart, and the same function failed
    def add(aggregate: bytearray, value: bytes) -> bytearray:
        aggregate.extend(value)
        return aggregate

    def build(records: Records) -> Any:
        return records.group_by_key().windowed_by(TEN).aggregate(bytearray, add)

    driver = WindowTestDriver(build)
    driver.pipe("k", b"ab", 1)
    driver.restart(driver.changes())
    [found] = driver.pipe("k", b"cd", 2)
    assert type(found.value) is bytearray
    assert found.value == b"abcd"


def test_an_aggregate_that_could_not_be_restored_is_never_committed() -> None:
    # 200 nested tuples were committed, and ended every process that restored them with SIGSEGV
    driver = WindowTestDriver(
        lambda records: records.group_by_key().windowed_by(TEN).aggregate(lambda: (), lambda nested, _: (nested,))
    )
    for row in range(200):
        driver.pipe("k", row, 1)
    with pytest.raises(CodecError, match=r"store aggregate-store-0000000001, key b'k.*nested too deep"):
        driver.changes()
