"""Schedules and timers of processors: when they fire, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from streamactors.windows import OperatorFailed, ProcessorContext, Record, VersionedStore
from tests.windows.processors.recording import driver_of, plain


def scheduling(every: int, clock: Any = "stream") -> Callable[[ProcessorContext], object]:
    return lambda c: c.schedule(f"{every}ms", lambda now: c.forward(Record("s", every, now)), clock)


@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_T_84_stream_time_fires_after_the_first_row_and_then_behind_each_multiple_and_once_for_a_jump(
    semantics: str,
) -> None:
    driver = driver_of(init=scheduling(10), semantics=semantics)
    fired = {at: plain(driver.pipe("in", "a", 1, at)) for at in (3, 7, 10, 11, 19, 45, 49, 50)}
    assert fired == {
        3: [("s", 10, 3)], 7: [], 10: [("s", 10, 10)], 11: [], 19: [], 45: [("s", 10, 45)], 49: [], 50: [("s", 10, 50)],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("semantics", "fired"), [("strict", [[], [], [("s", 10, 21)]]), ("kafka", [[("s", 10, 13)], [], [("s", 10, 21)]])]
)
def test_T_84_one_scheduled_in_process_first_fires_at_the_next_multiple(semantics: str, fired: list[Any]) -> None:
    done: list[int] = []

    def process(context: ProcessorContext, record: Record) -> None:
        if not done:
            done.append(1)
            scheduling(10)(context)

    driver = driver_of(process=process, semantics=semantics)
    assert [plain(driver.pipe("in", "a", 1, at)) for at in (13, 19, 21)] == fired


def test_T_84_several_that_are_due_go_by_their_time_and_ties_by_the_order_of_schedule() -> None:
    driver = driver_of(init=lambda c: [scheduling(every)(c) for every in (6, 4, 12)])
    assert [value for _, value, _ in plain(driver.pipe("in", "a", 1, 0))] == [6, 4, 12]
    assert [value for _, value, _ in plain(driver.pipe("in", "a", 1, 11))] == [4, 6]
    assert [value for _, value, _ in plain(driver.pipe("in", "a", 1, 12))] == [6, 4, 12]


@pytest.mark.parametrize(("semantics", "first"), [("strict", [6, 4, 12, 3]), ("kafka", [6, 3, 4, 12])])
def test_T_84_ties_go_in_the_order_of_schedule_and_in_kafkas_semantics_in_that_of_its_queue(
    semantics: str, first: list[int]
) -> None:
    # Recorded from Kafka Streams 4.1.1: its queue compares times only, so schedules that are due together change places.
    driver = driver_of(init=lambda c: [scheduling(every)(c) for every in (6, 4, 12, 3)], semantics=semantics)
    assert [[value for _, value, _ in plain(driver.pipe("in", "a", 1, at))] for at in (0, 13)] == [first, [3, 4, 6, 12]]


def test_T_87_a_version_has_an_end_except_in_kafkas_semantics() -> None:
    def process(context: ProcessorContext, record: Record) -> None:
        store = context.store("versions")
        store.put("a", record.value, record.timestamp)
        for found in (store.get("a", 1), store.get("a")):
            context.forward(record.replace(value=found))

    ends = {}
    for semantics in ("strict", "kafka"):
        driver = driver_of(process=process, semantics=semantics, stores=[VersionedStore("versions", history=10)])
        driver.pipe("in", "a", "old", 1)
        ends[semantics] = [value for _, value, _ in plain(driver.pipe("in", "a", "new", 5))]
    assert ends == {"strict": [("old", 1, 5), ("new", 5, None)], "kafka": [("old", 1, None), ("new", 5, None)]}


@pytest.mark.parametrize(
    ("puts", "kafka", "strict"),
    [
        # Recorded from Kafka Streams 4.1.1: the end of the validity of 2@10, and the value at 30. "-29" deletes at 29.
        (["1@29", "-@29"], (None, "2"), (29, None)),
        (["-@5", "1@29", "-@29"], (None, "2"), (29, None)),
        (["0@5", "1@29", "-@29"], (29, None), (29, None)),
        (["1@29", "-@5", "-@29"], (29, None), (29, None)),
        (["-@29", "1@29", "-@29"], (29, None), (29, None)),
        (["-@5", "1@29", "-@31"], (29, "1"), (29, "1")),
        (["-@5", "1@29", "-@5", "-@29"], (29, None), (29, None)),
    ],
)
@pytest.mark.parametrize("semantics", ["strict", "kafka"])
def test_T_87_kafkas_semantics_forget_a_deletion_at_the_time_of_the_only_live_version(
    puts: list[str], kafka: Any, strict: Any, semantics: str
) -> None:
    found: list[Any] = []

    def init(context: ProcessorContext) -> None:
        store = context.store("versions")
        for value, _, time in (each.partition("@") for each in puts):
            store.put("a", None if value == "-" else value, int(time))
        end = store.put("a", "2", 10)
        version = store.get("a", 30)
        found.append((end, None if version is None else version.value))

    stores = [VersionedStore("versions", history=100)]
    driver_of(init=init, semantics=semantics, stores=stores).pipe("in", "a", None, 0)
    assert found == [kafka if semantics == "kafka" else strict]


def test_T_85_the_wall_clock_fires_after_the_interval_and_once_for_a_delay() -> None:
    driver = driver_of(init=scheduling(10, "wall"))
    assert driver.pipe("in", "a", 1, 1_000) == []
    assert driver.advance_wall_clock("9ms") == []
    assert plain(driver.advance_wall_clock("1ms")) == [("s", 10, 10)]
    assert plain(driver.advance_wall_clock("35ms")) == [("s", 10, 45)]
    assert driver.advance_wall_clock("4ms") == []
    assert plain(driver.advance_wall_clock("1ms")) == [("s", 10, 50)]


def test_T_85_cancel_works_from_inside() -> None:
    def init(context: ProcessorContext) -> None:
        def fire(now: int) -> None:
            context.forward(Record("s", "once", now))
            scheduled.cancel()

        scheduled = context.schedule("10ms", fire, "wall")

    driver = driver_of(init=init)
    assert plain(driver.advance_wall_clock("30ms")) == [("s", "once", 30)]
    assert driver.advance_wall_clock("100ms") == []


def test_schedules_that_cannot_work_are_refused() -> None:
    for arguments, says in [
        ((0, print), "schedule: every"),
        ((5, 3), "is not callable"),
        ((5, print, "sun"), "clock is 'sun'"),
    ]:
        driver = driver_of(process=lambda c, r, arguments=arguments: c.schedule(*arguments))
        with pytest.raises(OperatorFailed, match=says):
            driver.pipe("in", "a", 1, 1)


# ── timers ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_T_84_a_timer_fires_once_when_stream_time_reaches_it_by_time_then_key_and_a_restart_keeps_it() -> None:
    driver = driver_of(process=lambda c, r: r.value and [c.timer(r.key, at) for at in r.value])
    driver.pipe("in", "b", [20, 30, 20], 1)
    driver.pipe("in", "a", [20], 2)
    assert driver.pipe("in", "x", None, 19) == []
    entries = driver.changes()
    assert plain(driver.pipe("in", "x", None, 20)) == [("a", "timer", 20), ("b", "timer", 20)]
    entries += driver.changes()
    driver.restart(entries)
    assert plain(driver.pipe("in", "x", None, 99)) == [("b", "timer", 30)]
    assert driver.pipe("in", "x", None, 100) == []
    driver.restart(entries + driver.changes())
    assert driver.pipe("in", "x", None, 101) == [], "a timer that has fired leaves the changelog"


def test_a_timer_for_a_time_that_was_reached_fires_behind_the_row_and_one_set_by_a_timer_behind_the_next() -> None:
    driver = driver_of(
        process=lambda c, r: r.value and c.timer(r.key, r.value),
        on_timer=lambda c, k, at: (c.forward(Record(k, "timer", at)), c.timer(k, at)),
    )
    assert plain(driver.pipe("in", "a", 3, 50)) == [("a", "timer", 3)]
    assert plain(driver.pipe("in", "b", None, 50)) == [("a", "timer", 3)]


def test_a_timer_that_is_cancelled_does_not_fire() -> None:
    found: list[bool] = []

    def process(context: ProcessorContext, record: Record) -> None:
        context.timer("a", 10)
        found.extend([context.cancel_timer("a", 10), context.cancel_timer("a", 10)])

    driver = driver_of(process=process)
    driver.pipe("in", "a", 1, 1)
    assert driver.pipe("in", "a", None, 1) == []
    assert found == [True, False] * 2
