"""Entries of an at-least-once changelog are written once: behind the results before them.

The producer and the other sinks are the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.state.changelogs.changelog import ChangelogAtLeastOnce, ChangelogInTransaction
from streamactors.kafka.subscriptions import TopicPartition


class World:
    """A changelog with a producer whose calls are made at once, and whose timers wait."""

    def __init__(self, *, progress: bool = True) -> None:
        self.written: list[Any] = []
        self.failures: list[BaseException] = []
        self.timers: list[tuple[float, Any]] = []
        self.waits: list[Any] = []
        self.task = object()
        self.keeper = SimpleNamespace(tasks={0: self.task, 1: object()}, failed=self.failures.append)
        log: Any = object.__new__(ChangelogAtLeastOnce)
        log._keeper = self.keeper
        log._producer = SimpleNamespace(call=lambda what, *given: what(*given), later=self._later)
        log._progress = SimpleNamespace(when_done=self._when_done) if progress else None
        log._behind = frozenset()
        log._records = lambda kept: [entries for _, entries in kept]
        log._write = lambda *given: self.written.append(given)
        self.log = log

    def _later(self, ms: float, call: Any) -> None:
        self.timers.append((ms, call))

    def _when_done(self, at: Any, then: Any, *, among: Any, failed: Any) -> None:
        self.waits.append(SimpleNamespace(at=at, then=then, failed=failed))


CHANGES: Any = [(0, ["x"]), (1, ["y"])]


def test_entries_are_written_when_the_results_before_them_are_done() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", False)
    assert (world.written, world.timers) == ([], [])
    (wait,) = world.waits
    assert wait.at == "a mark"
    wait.then()
    assert world.written == [([["x"], ["y"]], [0, 1], "a mark", False)]


def test_at_the_end_too_entries_wait_for_the_results_before_them() -> None:
    """The process may be killed while a sink is slow at the end: the windows must not be closed in the changelog by then."""
    world = World()
    world.log.write(CHANGES, "a mark", True)
    assert (world.written, world.timers) == ([], [])
    world.waits[0].then()
    assert [given[1:] for given in world.written] == [([0, 1], "a mark", True)]


def test_a_result_that_fails_fails_the_keeper_and_nothing_is_written() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", False)
    error = ValueError("broken")
    world.waits[0].failed(error)
    assert (world.failures, world.written) == ([error], [])


def test_without_other_sinks_entries_are_written_at_once() -> None:
    world = World(progress=False)
    world.log.write(CHANGES, "a mark", False)
    assert len(world.written) == 1


def test_entries_of_a_partition_that_was_taken_away_meanwhile_are_left() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", False)
    world.keeper.tasks = {0: world.task}
    world.waits[0].then()
    assert [given[:2] for given in world.written] == [([["x"]], [0])]


def test_entries_of_a_partition_that_came_back_with_another_task_are_left() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", False)
    world.keeper.tasks = {**world.keeper.tasks, 0: object()}
    world.waits[0].then()
    assert [given[:2] for given in world.written] == [([["y"]], [1])]


def writer(*, lost: Exception | None = None, progress: bool = True) -> Any:
    """A changelog whose producer acknowledges records at offsets from 10 on; `calls` has what it does, in order."""
    calls: list[Any] = []

    def send_all(records: Any, report: Any) -> None:
        for record in records:
            calls.append(("send", record.topic, record.partition, record.value))
            at = 10 + len([each for each in calls if each[0] == "send"])
            report(lost, SimpleNamespace(offset=lambda at=at: at))

    log: Any = object.__new__(ChangelogAtLeastOnce)
    log.calls = calls
    log._state = SimpleNamespace(
        cut=lambda records, numbers: calls.append(("cut", len(records), numbers)) or "the cut",
        acknowledged=lambda cut, ends: calls.append(("on disk", cut, ends)),
    )
    log._producer = SimpleNamespace(
        send_all=send_all,
        flush=lambda: calls.append(("flush",)),
        not_delivered=lambda record, error: ValueError(f"{record.topic}: {error}"),
        close=lambda *, drop: calls.append(("close", drop)),
        call=lambda what: what(),
    )
    log._keeper = SimpleNamespace(
        stage="the stage",
        gives_nothing_more=False,
        committed=lambda: calls.append(("committed",)),
        failed=lambda error: calls.append(("failed", str(error))),
        cut=lambda target: calls.append(("a new cut", target)),
    )
    log._progress = (
        SimpleNamespace(
            done=lambda stage, at: calls.append(("done", stage, at)),
            sink_ended=lambda stage: calls.append(("sink ended", stage)),
        )
        if progress
        else None
    )
    log._write_to_disk = lambda what: what()
    log._arm = lambda: calls.append(("armed",))
    log._stop_reading = lambda: calls.append(("reading stops",))
    return log


def record(topic: str, partition: int, value: bytes) -> Any:
    return ProducerRecord(topic, value, b"k", partition)


def test_the_last_entry_of_each_partition_is_sent_last_and_tells_its_end() -> None:
    log = writer()
    log._write([record("a", 0, b"1"), record("a", 1, b"2"), record("a", 0, b"3")], [0, 1], "a mark", False)
    assert log.calls == [
        ("cut", 3, [0, 1]),
        ("send", "a", 0, b"1"),
        ("send", "a", 0, b"3"),
        ("send", "a", 1, b"2"),
        ("flush",),
        ("on disk", "the cut", {TopicPartition("a", 0): 13, TopicPartition("a", 1): 14}),
        ("done", "the stage", "a mark"),
        ("committed",),
        ("armed",),
    ]


def test_at_the_end_no_other_cut_is_planned() -> None:
    log = writer(progress=False)
    log._write([], [], "a mark", True)
    assert log.calls == [("cut", 0, []), ("flush",), ("on disk", "the cut", {}), ("committed",)]


def test_an_entry_that_is_lost_fails_the_keeper_and_nothing_is_done() -> None:
    log = writer(lost=ConnectionError("gone"))
    log._write([record("a", 0, b"1")], [0], "a mark", False)
    assert log.calls[-1] == ("failed", "a: gone")
    assert {"done", "committed", "armed", "on disk"}.isdisjoint(each[0] for each in log.calls)


def test_an_entry_that_is_lost_when_the_sinks_have_ended_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """No sink can fail with it any more."""
    for ended in (False, True):
        log = writer(lost=ConnectionError("gone"))
        log._keeper.gives_nothing_more = ended
        log._write([record("a", 0, b"1")], [0], "a mark", True)
        assert log.calls[-1] == ("failed", "a: gone")
    assert caplog.messages == [
        "a: gone; the stream has ended, and the next run reads the rows since the last commit again"
    ]


def test_a_hurry_makes_the_cut_that_the_timer_would_have_made_and_no_second_one() -> None:
    log = writer()
    log._timer = None
    log.hurry()
    log._timer = SimpleNamespace(cancel=lambda: False)  # a cut is under way
    log.hurry()
    assert log.calls == []
    log._timer = SimpleNamespace(cancel=lambda: True)
    log.hurry()
    assert log.calls == [("a new cut", {})]


def test_a_changelog_that_is_finished_counts_as_a_sink_that_has_ended() -> None:
    for finished, progress, ended in ((True, True, True), (False, True, False), (True, False, False)):
        log = writer(progress=progress)
        log.close(None, finished)
        assert log.calls == [("reading stops",), *([("sink ended", "the stage")] if ended else []), ("close", True)]


def in_a_transaction() -> Any:
    calls: list[Any] = []
    log: Any = object.__new__(ChangelogInTransaction)
    log.calls = calls
    log._cuts, log._given, log._owed = [], [], []
    log._keeper = SimpleNamespace(handed_over=lambda: calls.append(("handed over",)))
    log._records = lambda changes: [entries for _, entries in changes]
    log._state = SimpleNamespace(
        cut=lambda records, numbers: f"cut of {numbers}", committed=lambda cuts: calls.append(("on disk", cuts))
    )
    log._write_to_disk = lambda what: what()
    log._stop_reading = lambda: calls.append(("reading stops",))
    log._transaction = SimpleNamespace(
        post=lambda what: what(),
        when_committed=lambda then: calls.append(("when committed", then)),
        when_over=lambda then: calls.append(("when over", then)),
        write=lambda records: calls.append(("write", records)),
        on_reached=lambda keeper, at, *, ended: calls.append(("reached", at, ended)),
        draining=lambda: calls.append(("draining",)),
        leave=lambda keeper, error, *, finished: calls.append(("leave", error, finished)),
        offsets=SimpleNamespace(
            owe=lambda inputs, *, last: None if "revoked" in inputs else [*inputs],
            paid=lambda debts: calls.append(("paid", debts)),
        ),
    )
    return log


def test_entries_in_a_transaction_are_on_disk_when_it_is_committed() -> None:
    log = in_a_transaction()
    log.write([(0, ["x"])], "m1", False)
    log.write([(1, ["y"])], "m2", True)
    assert [each for each in log.calls if each[0] != "when committed"] == [
        ("write", [["x"]]),
        ("reached", "m1", False),
        ("write", [["y"]]),
        ("handed over",),
        ("reached", "m2", True),
    ]
    (asked,) = [then for name, then in [each for each in log.calls if each[0] == "when committed"]]
    log.calls.clear()
    asked()
    assert log.calls == [("on disk", ["cut of [0]", "cut of [1]"])]
    log.write([(0, ["z"])], "m3", False)
    assert log.calls[1][0] == "when committed", "the next transaction is asked anew"


def test_results_that_stem_from_no_row_are_owed_until_the_cut_behind_them_is_committed() -> None:
    log = in_a_transaction()
    assert log.may_give({"a": 1}, last=False)
    log.write([], "m1", False)
    (asked,) = [then for name, then in [each for each in log.calls if each[0] == "when committed"]]
    assert log.may_give({"b": 1}, last=False)  # behind the cut
    assert not log.may_give({"revoked": 1}, last=False)
    assert log.may_give({"c": 1}, last=False)
    log.calls.clear()
    log.gave_nothing()
    asked()
    assert log.calls == [("paid", ["c"]), ("paid", ["a"]), ("on disk", ["cut of []"])]
    log.calls.clear()
    log.write([], "m2", False)
    log.calls[0][1]()
    assert ("paid", ["b"]) in log.calls


def test_a_changelog_leaves_its_transaction_and_reads_on_until_the_last_cut_is_committed() -> None:
    log = in_a_transaction()
    log.close(None, finished=True)
    assert log.calls == [("when over", log._stop_reading), ("leave", None, True)]
    error = ValueError("broken")
    other = in_a_transaction()
    other.close(error, finished=False)
    assert other.calls == [("reading stops",), ("leave", error, False)]
    other.hurry()
    assert other.calls[-1] == ("draining",)
