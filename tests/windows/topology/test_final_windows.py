"""Windows whose final results have been emitted stay readable until their retention is over, a restart or not.

Two tables of final results are joined: the side that closes first is read when the other one closes. The windows that were emitted
lay in memory only, so a restart lost these results; sessions with strict semantics were not readable at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from streamactors.codec import dumps, loads
from streamactors.log_limit import LogLimit
from streamactors.testing import TopologyDriver
from streamactors.windows import (
    BufferConfig,
    Record,
    RecordContext,
    SessionWindows,
    SlidingWindows,
    Suppressed,
    TaskIdentity,
    TimeWindows,
)
from streamactors.windows.operators.windowed import late_rows
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.disk.rocks import Memory, Rocks
from streamactors.windows.state.disk.task_disk import TaskDisk
from streamactors.windows.state.store_log import META_KEY
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

SEMANTICS = ("strict", "kafka")
WINDOWS = {
    "tumbling": TimeWindows.of_size(5).with_grace(2),
    "hopping": TimeWindows.of_size(6).advance_by(2).with_grace(1),
    "sessions": SessionWindows.with_gap(3).with_grace(2),
    "sliding": SlidingWindows.of_difference(4).with_grace(1),
}
CLOSED = Suppressed.until_window_closes(BufferConfig.unbounded())
FINALS: dict[str, Callable[[Any], Any]] = {
    "emitted": lambda table: table.emit_on_window_close(),
    "suppressed": lambda table: table.suppress(CLOSED),
}


def kept(seen: list[Any], value: Any) -> list[Any]:
    seen.append(value)
    return seen


AGGREGATES: dict[str, Callable[[Any, str], Any]] = {
    "count": lambda grouped, name: grouped.count(name=name),
    "reduce": lambda grouped, name: grouped.reduce(lambda a, b: a + b, name=name),
    "aggregate": lambda grouped, name: grouped.aggregate(list, kept, lambda a, b: a + b, name=name),
    "min": lambda grouped, name: grouped.min(name=name),
    "max": lambda grouped, name: grouped.max(name=name),
    "top": lambda grouped, name: grouped.top(2, name=name),
}
CASES = [(windows, "count", finals) for windows in WINDOWS for finals in FINALS]
CASES += [(windows, aggregate, "emitted") for windows in WINDOWS for aggregate in ("reduce", "aggregate")]
CASES += [(windows, aggregate, "suppressed") for windows in WINDOWS for aggregate in ("min", "max", "top")]
ROWS = [
    (random.choice("lr"), random.choice(["k0", "k1", "k2"]), random.randrange(9), max(0, now + random.randrange(-6, 5)))
    for random in [Random(4)]
    for now in [n + 30 * (n > 40) + 300 * (n > 60) for n in range(80)]
]
IDENTITY = TaskIdentity("finals")


def final_table(topics: TopologyTopics, topic: str, case: tuple[str, str, str], retention: int = 60) -> Any:
    windows, aggregate, finals = case
    grouped = topics.stream(topic).group_by_key().windowed_by(WINDOWS[windows], retention=retention)
    return FINALS[finals](AGGREGATES[aggregate](grouped, f"{topic}-n"))


def joined(topics: TopologyTopics, case: tuple[str, str, str]) -> Any:
    left, right = (final_table(topics, topic, case) for topic in "lr")
    return left.join(right, lambda left, right: (left, right), how="left")


def factory_of(case: tuple[str, str, str], semantics: Any) -> TaskFactory:
    topics = TopologyTopics(semantics)
    joined(topics, case).to("out")
    return TaskFactory(topics.topology, changelog=True)


def rows(every: int = 1) -> list[Record]:
    return [
        Record(key, value, time, RecordContext(topic, 0, at))
        for at, (topic, key, value, time) in enumerate(ROWS[::every])
    ]


@pytest.fixture
def late_rows_are_logged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is limited by a clock that stands still, so each step logs its first late row, however long the test takes."""
    monkeypatch.setattr(late_rows, "log_limited", LogLimit(now_s=lambda: 0.0).log)


def run(factory: TaskFactory, *, restarts: bool, every: int = 1) -> tuple[list[Any], int]:
    """Return the results, and the number of late rows."""
    task, found, entries, late = factory.restored(IDENTITY, ()), [], [], 0
    for row in rows(every):
        found += task.process_chunk([row])
        if restarts:
            entries += task.changes()
            late += task.metrics.dropped_late
            task = factory.restored(IDENTITY, entries)
    found += task.end_of_input()
    return found, late + task.metrics.dropped_late


def run_on_disk(factory: TaskFactory, path: Path, every: int) -> tuple[list[Any], int]:
    memory, found, late = Memory(8 << 20), [], 0
    disk: TaskDisk | None = None
    task: Any = None
    for row in rows(every):
        if disk is not None:
            late += task.metrics.dropped_late
            disk.close()
        disk = TaskDisk(Rocks(path, memory), factory().stores, time_first=factory.time_first)
        task = factory.restored(IDENTITY, (), DiskStores(disk, lambda: 1))
        found += task.process_chunk([row])
        task.changes()
        disk.commit()
    assert disk is not None
    found += task.end_of_input()
    disk.close()
    return found, late + task.metrics.dropped_late


@pytest.mark.usefixtures("late_rows_are_logged_once")
@pytest.mark.expects_log("l-n: ", "r-n: 1 dropped as late")
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_join_of_final_windows_gives_the_same_with_a_restart_after_each_row(
    case: tuple[str, str, str], semantics: str
) -> None:
    factory = factory_of(case, semantics)
    expected, late = run(factory, restarts=False)
    assert any(None not in row.record.value for row in expected if row.record.value), "no two windows met"
    assert late > 0
    assert run(factory, restarts=True) == (expected, late)


@pytest.mark.usefixtures("late_rows_are_logged_once")
@pytest.mark.expects_log("r-n: 1 dropped as late")
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_join_of_final_windows_gives_the_same_from_disk(windows: str, semantics: str, tmp_path: Path) -> None:
    factory = factory_of((windows, "aggregate", "emitted"), semantics)
    expected, late = run(factory, restarts=False, every=4)
    assert any(None not in row.record.value for row in expected if row.record.value), "no two windows met"
    assert run_on_disk(factory, tmp_path, every=4) == (expected, late)


def met(windows: str, semantics: Any, *, later: int, restarts: bool = False) -> list[Any]:
    """The values of the join for a window of each side at the time 1; the right side closes when the left side is at `later`."""

    def build(topics: TopologyTopics) -> Any:
        left, right = (final_table(topics, topic, (windows, "count", "emitted")) for topic in "lr")
        return left.join(right, lambda left, right: (left, right))

    driver, found, saved = TopologyDriver(build, semantics=semantics), [], []
    for topic, key, time in (("l", "k", 1), ("l", "z", later), ("r", "k", 1), ("r", "z", 40)):
        found += [row.record.value for row in driver.pipe(topic, key, 1, timestamp=time) if row.record.key == "k"]
        saved += driver.changes()
        if restarts:
            driver.restart(saved)
    return found


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("windows", ["tumbling", "sessions", "sliding"])
def test_an_emitted_window_is_read_until_its_retention_is_over(windows: str, semantics: str, restarts: bool) -> None:
    assert met(windows, semantics, later=55, restarts=restarts) == [(1, 1)]
    assert met(windows, semantics, later=200, restarts=restarts) == []


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_the_changelog_keeps_an_emitted_window_until_its_retention_is_over(windows: str, semantics: Any) -> None:
    driver = TopologyDriver(
        lambda topics: final_table(topics, "l", (windows, "count", "emitted"), 100), semantics=semantics
    )
    left: set[bytes] = set()

    def entries_after(time: int) -> int:
        driver.pipe("l", "z", 1, timestamp=time)
        for change in driver.changes():
            (left.discard if change.value is None else left.add)(change.key)
        return sum(key[1:2] == b"k" for key in left)

    driver.pipe("l", "k", 1, timestamp=10)
    kept = entries_after(11)
    assert kept > 0
    assert entries_after(60) == kept
    for time in (300, 600, 900):
        last = entries_after(time)
    assert last == 0


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_query_finds_emitted_windows_until_their_retention_is_over(windows: str, restarts: bool) -> None:
    driver = TopologyDriver(lambda topics: final_table(topics, "l", (windows, "count", "emitted")))
    found, saved = [], []
    for time in (10, 40, 200):
        driver.pipe("l", "k", 1, timestamp=time)
        saved += driver.changes()
        if restarts:
            driver.restart(saved)
        found.append(min(start for (_, start, _), _ in driver.store("l-n").items()))
    assert found[1] == found[0]
    assert found[2] > 100


def test_an_emitted_window_is_not_emitted_again_after_a_restart() -> None:
    for windows in WINDOWS:
        driver = TopologyDriver(lambda topics, windows=windows: final_table(topics, "l", (windows, "count", "emitted")))
        driver.pipe("l", "k", 1, timestamp=10)
        assert driver.pipe("l", "z", 1, timestamp=40)
        driver.restart(driver.changes())
        assert [row.record.key for row in driver.pipe("l", "z", 1, timestamp=55)].count("k") == 0
        assert [row.record.key for row in driver.end_of_input()].count("k") == 0


def grown(windows: str, grace: int) -> Callable[[TopologyTopics], Any]:
    return lambda topics: (
        topics.stream("l")
        .group_by_key()
        .windowed_by(WINDOWS[windows].with_grace(grace), retention=100)
        .count(name="n")
        .emit_on_window_close()
    )


def emitted_with(windows: str, before: int, after: int, *rows: tuple[str, int]) -> list[tuple[Any, ...]]:
    """The results when the grace is another one after the first two rows."""
    driver = TopologyDriver(grown(windows, before))
    found = [row for key, time in rows[:2] for row in driver.pipe("l", key, 1, timestamp=time)]
    changes = driver.changes()
    driver = TopologyDriver(grown(windows, after))
    driver.restart(changes)
    found += [row for key, time in rows[2:] for row in driver.pipe("l", key, 1, timestamp=time)]
    return [(row.record.start, row.record.value) for row in found if row.record.key == "k"]


@pytest.mark.parametrize("windows", WINDOWS)
def test_a_window_that_was_final_stays_final_when_a_restart_gives_more_grace(windows: str) -> None:
    rows = (("k", 1), ("z", 20), ("k", 1), ("z", 90))
    once = emitted_with(windows, 2, 2, *rows)
    assert once
    assert emitted_with(windows, 2, 40, *rows) == once


@pytest.mark.parametrize("windows", WINDOWS)
def test_a_window_that_was_open_is_emitted_when_a_restart_gives_less_grace(windows: str) -> None:
    rows = (("k", 1), ("z", 20), ("z", 90))
    assert emitted_with(windows, 40, 2, *rows) == emitted_with(windows, 2, 2, *rows) != []


@pytest.mark.parametrize("semantics", SEMANTICS)
@pytest.mark.parametrize("windows", WINDOWS)
def test_a_changelog_without_a_mark_of_emitted_windows_is_restored(windows: str, semantics: Any) -> None:
    """Such changelogs have time windows that were not emitted yet, and no others."""
    build = lambda topics: final_table(topics, "l", (windows, "count", "emitted"))  # noqa: E731
    driver = TopologyDriver(build, semantics=semantics)
    driver.pipe("l", "k", 1, timestamp=10)
    driver.pipe("l", "z", 1, timestamp=11)
    changes = []
    for change in driver.changes():
        value = change.value
        if change.key == META_KEY:
            *owner, state = loads(value)
            value = dumps([*owner, {name: state[name] for name in ("stream_time", "newest")}])
        changes.append(change._replace(value=value))
    expected = driver.pipe("l", "z", 1, timestamp=40)
    driver.restart(changes)
    assert driver.pipe("l", "z", 1, timestamp=40) == expected != []
