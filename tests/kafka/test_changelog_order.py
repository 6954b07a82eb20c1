"""Entries of an at-least-once changelog are written once: behind the results before them, or without further wait when the stream has ended.

The producer and the other sinks are the test's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from streamactors.kafka.between.changelogs.changelog import ChangelogAtLeastOnce


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
        log._patience_ms = 5_000
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
    wait.then()
    wait.failed(ValueError("late"))
    assert (len(world.written), world.failures) == (1, [])


def test_at_the_end_entries_are_written_after_a_time_though_a_sink_is_not_done() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", True)
    ((ms, call),) = world.timers
    assert ms == 5_000
    call()
    assert [given[1:] for given in world.written] == [([0, 1], "a mark", True)]
    world.waits[0].then()
    assert len(world.written) == 1


def test_a_result_that_fails_fails_the_keeper_and_nothing_is_written() -> None:
    world = World()
    world.log.write(CHANGES, "a mark", False)
    error = ValueError("broken")
    world.waits[0].failed(error)
    world.waits[0].then()
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
