"""A chain of windowed steps behind any source: functions may change all they get, keys as well, and no store changes with it.

As tests/windows/topology/test_mutating_functions.py, for the chain of operators without topics. Whoever made the rows spoils them after the
chain has taken them, and whoever gets the results spoils those."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from streamactors.windows import BufferConfig, Record, SlidingWindows, Suppressed, TaskIdentity
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.topology.chain import Records, tasks_of
from streamactors.windows.topology.task_factory import TaskFactory
from tests.windows.mutating import (
    CLOSED,
    HELD,
    HOPPING,
    ROWS,
    SESSIONS,
    SLIDING,
    TUMBLING,
    Wrap,
    both,
    calm,
    gather,
    plus,
    row,
    spoil,
    spoiling,
)

Build = Callable[[Wrap], Any]

EARLY = Suppressed.until_window_closes(BufferConfig.unbounded()).with_early_results(2)
SMALL = Suppressed.until_time_limit(9, BufferConfig.max_bytes(400).emit_early_when_full())


def windowed(windows: Any, *merge: Any, then: Callable[[Any], Any] = lambda table: table) -> Build:
    def build(wrap: Wrap) -> Any:
        grouped = Records().group_by_key().windowed_by(windows)
        table = then(grouped.aggregate(list, wrap(gather), *map(wrap, merge)))
        return table.map_values(wrap(lambda value: {"seen": value})).to_stream()

    return build


def in_place(windows: Any, then: Callable[[Any], Any]) -> Build:
    return lambda wrap: then(Records().group_by_key().windowed_by(windows).aggregate(list, gather)).to_stream()


def by_part_of_the_value(wrap: Wrap) -> Any:
    """The key is an object of the value, which the aggregation changes."""

    def spoilt(seen: list[Any], value: Any) -> list[Any]:
        new = [*seen, copy.deepcopy(value)]
        if wrap is spoiling:
            spoil(value)
        return new

    return Records().key_by(lambda record: record.value and record.value["in"]).aggregate(list, spoilt).to_stream()


def twice(wrap: Wrap) -> Any:
    """The key of the second table is that of a window of the first one."""
    first = Records().group_by_key().windowed_by(HOPPING).count().suppress(CLOSED).to_stream()
    return (
        first.group_by_key()
        .windowed_by(SlidingWindows.of_difference(5).with_grace(99))
        .aggregate(list, wrap(gather))
        .suppress(CLOSED)
        .to_stream()
    )


BUILDS: dict[str, Build] = {
    "aggregate": lambda wrap: Records().group_by_key().aggregate(list, wrap(gather)).to_stream(),
    "reduce": lambda wrap: Records().group_by_key().reduce(wrap(both)).filter(bool).to_stream(),
    "to_table": lambda wrap: Records().to_table().map_values(wrap(lambda value: {"mapped": value})).to_stream(),
    "suppressed table": lambda wrap: Records().to_table().suppress(HELD).to_stream(),
    "suppressed table of few bytes": lambda wrap: Records().to_table().suppress(SMALL).to_stream(),
    "key of a part of the value": by_part_of_the_value,
    "tumbling windows": windowed(TUMBLING),
    "hopping windows": windowed(HOPPING),
    "sliding windows": windowed(SLIDING),
    "sessions": windowed(SESSIONS, plus),
    "suppressed windows": windowed(HOPPING, then=lambda table: table.suppress(CLOSED)),
    "suppressed windows in place": in_place(HOPPING, lambda table: table.suppress(CLOSED)),
    "windows with early results": windowed(TUMBLING, then=lambda table: table.suppress(EARLY)),
    "suppressed sliding windows": windowed(SLIDING, then=lambda table: table.suppress(CLOSED)),
    "suppressed sessions": windowed(SESSIONS, plus, then=lambda table: table.suppress(CLOSED)),
    "windows emitted on close": windowed(TUMBLING, then=lambda table: table.emit_on_window_close()),
    "sliding windows emitted on close": windowed(SLIDING, then=lambda table: table.emit_on_window_close()),
    "sessions emitted on close": windowed(SESSIONS, plus, then=lambda table: table.emit_on_window_close()),
    "windows of windows": twice,
}
IDENTITY = TaskIdentity("mutates")


def factory_of(build: Build, wrap: Wrap) -> TaskFactory:
    return tasks_of(build(wrap), changelog=True)


def fed(task: Any, rows: list[Record], wrap: Wrap) -> list[Any]:
    """The results as they are now; then whoever has rows or results spoils them."""
    results = task.process_chunk(rows)
    found = shown(results)
    if wrap is spoiling:
        spoil([*rows, *results])
    return found


def shown(results: list[Any]) -> list[Any]:
    return [copy.deepcopy((each.key, getattr(each, "start", None), each.value, each.timestamp)) for each in results]


def run(build: Build, wrap: Wrap, *, restarts: bool = False) -> list[Any]:
    factory = factory_of(build, wrap)
    task, found, entries = factory.restored(IDENTITY, ()), [], []
    for number in range(len(ROWS)):
        found += fed(task, [row(number)], wrap)
        if restarts:
            entries += task.changes()
            task = factory.restored(IDENTITY, entries)
    return found + shown(task.end_of_input())


@pytest.mark.parametrize("name", BUILDS)
def test_what_functions_change_changes_no_state(name: str) -> None:
    build = BUILDS[name]
    expected = run(build, calm)
    assert expected, "the rows give no result"
    assert run(build, spoiling) == expected
    assert run(build, spoiling, restarts=True) == expected


RESTART_EACH = 3
"""Rows between two restarts on disk; in memory there is one after each row."""


@pytest.mark.parametrize("name", BUILDS)
def test_what_functions_change_changes_no_state_on_disk(name: str, tmp_path: Path) -> None:
    build, memory, found = BUILDS[name], Memory(8 << 20), []
    factory = factory_of(build, spoiling)
    names = factory().stores
    task: Any = None
    for first in range(0, len(ROWS), RESTART_EACH):
        disk = TaskDisk(Rocks(tmp_path, memory), names, time_first=factory.time_first)
        task = factory.restored(IDENTITY, (), DiskStores(disk, lambda: 1))
        for number in range(first, min(first + RESTART_EACH, len(ROWS))):
            found += fed(task, [row(number)], spoiling)
        if number == len(ROWS) - 1:
            found += shown(task.end_of_input())
        task.changes()
        disk.commit()
        disk.close()
    assert found == run(build, calm)
