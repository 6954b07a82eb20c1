"""The purgatory: exactly one winner, nothing lost, dead entries bounded."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable

import pytest

from streamactors.broker.purgatory import Purgatory
from tests.broker.purgatory_world import FakeAlarms, Operation, made_purgatory


def test_the_lists_hold_as_many_completed_operations_as_wait_and_no_more() -> None:
    purgatory = Purgatory("Test", FakeAlarms(), purge_interval=3, most=4)
    waiting = deque([Operation(100)])
    purgatory.try_complete_else_watch(waiting[0], ["a"])
    for most in (1, 4):
        for _ in range(20):
            while len(waiting) >= most:
                waiting.popleft().force_complete()
            waiting.append(Operation(100))
            purgatory.try_complete_else_watch(waiting[-1], ["a"])
    assert (purgatory._gauge.highest, purgatory._gauge.bound) == (8, 8)
    assert purgatory.watched <= 8


def test_an_operation_that_can_complete_is_not_watched() -> None:
    purgatory, _ = made_purgatory()
    operation = Operation(100, lambda: True)
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.completions, purgatory.watched, purgatory.delayed) == (1, 0, 0)


def test_a_change_completes_only_the_operations_that_wait_for_it() -> None:
    purgatory, _ = made_purgatory()
    ready = set[str]()
    first, second = Operation(100, lambda: "a" in ready), Operation(100, lambda: "b" in ready)
    assert not purgatory.try_complete_else_watch(first, ["a", "x"])
    assert not purgatory.try_complete_else_watch(second, ["b"])
    ready |= {"a", "b"}
    assert purgatory.check_and_complete("a") == 1
    assert (first.completions, second.completions) == (1, 0)
    assert purgatory.delayed == 1
    assert purgatory.watched == 2  # second, and the dead entry of first under x
    assert purgatory.check_and_complete("x") == 0
    assert purgatory.watched == 1


def test_the_deadline_completes_once_and_calls_on_expiration() -> None:
    purgatory, alarms = made_purgatory()
    operation = Operation(100)
    purgatory.try_complete_else_watch(operation, ["a"])
    alarms.advance(99)
    assert operation.completions == 0
    alarms.advance(1)
    assert (operation.completions, operation.expirations, purgatory.delayed) == (1, 1, 0)
    operation.condition = lambda: True
    assert purgatory.check_and_complete("a") == 0
    assert (operation.completions, purgatory.watched) == (1, 0)


def test_an_earlier_deadline_moves_the_alarm_forward() -> None:
    purgatory, alarms = made_purgatory()
    late, early = Operation(1000), Operation(10)
    purgatory.try_complete_else_watch(late, ["a"])
    purgatory.try_complete_else_watch(early, ["a"])
    alarms.advance(10)
    assert (early.completions, late.completions) == (1, 0)
    alarms.advance(990)
    assert late.completions == 1


def test_a_change_between_the_first_try_and_the_watch_is_not_missed() -> None:
    # try_complete says no -> the condition becomes true, nobody is watched yet -> watch: the second try must see it
    purgatory, _ = made_purgatory()
    answers = iter([False, True])
    operation = Operation(100, lambda: next(answers))
    assert purgatory.try_complete_else_watch(operation, ["a"])
    assert (operation.completions, purgatory.delayed) == (1, 0)


def test_a_completion_that_changes_the_same_key_again_is_not_missed() -> None:
    # An answer lets the next request in, which appends, which checks the same watchers while they are being walked.
    purgatory, _ = made_purgatory()
    level = 1
    first = Operation(100, lambda: level >= 2)
    second = Operation(100, lambda: level >= 3)
    third = Operation(100, lambda: level >= 2)

    def next_request() -> None:
        nonlocal level
        level = 3
        purgatory.check_and_complete("a")

    for operation in (second, first, third):
        purgatory.try_complete_else_watch(operation, ["a"])
    first.then = next_request
    level = 2
    purgatory.check_and_complete("a")
    assert [operation.completions for operation in (first, second, third)] == [1, 1, 1]


def test_an_operation_watched_during_the_walk_stays_watched() -> None:
    purgatory, _ = made_purgatory()
    ready = False
    first, second = Operation(100, lambda: ready), Operation(100)
    purgatory.try_complete_else_watch(first, ["a"])
    first.then = lambda: purgatory.try_complete_else_watch(second, ["a"])
    ready = True
    purgatory.check_and_complete("a")
    second.condition = lambda: True
    assert purgatory.check_and_complete("a") == 1


def test_an_operation_whose_try_leads_back_to_itself_is_tried_again() -> None:
    purgatory, _ = made_purgatory()
    calls = 0

    def condition() -> bool:
        nonlocal calls
        calls += 1
        if calls == 3:  # during the check of key a, key b changes
            purgatory.check_and_complete("b")
        return calls >= 4

    operation = Operation(100, condition)
    purgatory.try_complete_else_watch(operation, ["a", "b"])
    assert purgatory.check_and_complete("a") == 1
    assert operation.completions == 1


@pytest.mark.expects_log("trying to complete it failed")
def test_an_operation_that_fails_does_not_harm_those_behind_it() -> None:
    purgatory, alarms = made_purgatory()

    def broken() -> bool:
        if armed:
            raise RuntimeError("broken")
        return False

    armed, ready = False, False
    bad, good = Operation(50, broken), Operation(100, lambda: ready)
    purgatory.try_complete_else_watch(bad, ["a"])
    purgatory.try_complete_else_watch(good, ["a"])
    armed = ready = True
    assert purgatory.check_and_complete("a") == 1
    assert good.completions == 1
    alarms.advance(50)
    assert bad.completions == 1  # its time still comes


def test_dead_entries_are_swept_when_the_estimate_says_so() -> None:
    purgatory, _ = made_purgatory(purge_interval=100)
    for number in range(1000):
        operation = Operation(10_000)
        purgatory.try_complete_else_watch(operation, [f"key{number % 7}", "never checked"])
        operation.force_complete()
    assert purgatory.delayed == 0
    assert purgatory.watched <= 2 * 101


def test_a_change_of_another_key_during_a_try_is_looked_for_under_every_key() -> None:
    purgatory, _ = made_purgatory()
    tried: list[Hashable] = []

    class Keyed(Operation):
        __slots__ = ()

        def try_complete(self) -> bool:
            tried.append("all")
            return False

        def try_complete_for(self, key: Hashable) -> bool:
            tried.append(key)
            if tried.count("a") == 1:
                purgatory.check_and_complete("b")
            return False

    purgatory.try_complete_else_watch(Keyed(100), ["a", "b"])
    tried.clear()
    purgatory.check_and_complete("a")
    assert tried == ["a", "all"]


def test_waiting_operations_stay_in_order_before_those_added_during_the_walk() -> None:
    purgatory, _ = made_purgatory()
    ready, tried = False, []

    def noted(name: str) -> Callable[[], bool]:
        return lambda: bool(tried.append(name))

    trigger, newcomer = Operation(100, lambda: ready), Operation(100, noted("newcomer"))
    purgatory.try_complete_else_watch(Operation(100, noted("first")), ["a"])
    purgatory.try_complete_else_watch(trigger, ["a"])
    purgatory.try_complete_else_watch(Operation(100, noted("last")), ["a"])
    trigger.then = lambda: purgatory.try_complete_else_watch(newcomer, ["a"])
    ready = True
    purgatory.check_and_complete("a")
    tried.clear()
    purgatory.check_and_complete("a")
    assert tried == ["first", "last", "newcomer"]


def test_a_negative_delay_is_over_at_once() -> None:
    purgatory, alarms = made_purgatory()
    alarms.clock.time_ms = 1_000
    operation = Operation(-500)
    purgatory.try_complete_else_watch(operation, ["a"])
    assert operation.deadline_ms == 1_000
    alarms.advance(0)
    assert (operation.completions, operation.expirations) == (1, 1)


def test_many_that_wait_are_not_swept_for_a_few_dead_ones() -> None:
    # A sweep looks at everything that waits: it must wait until there are as many dead ones, or it costs the square.
    purgatory, _ = made_purgatory(purge_interval=10)
    for _ in range(100):
        purgatory.try_complete_else_watch(Operation(10_000), ["waiting"])
    for number in range(100):
        operation = Operation(10_000)
        purgatory.try_complete_else_watch(operation, [f"dead{number}"])
        operation.force_complete()
    assert purgatory.watched == 200
    for _ in range(4):
        operation = Operation(10_000)
        purgatory.try_complete_else_watch(operation, ["last"])
        operation.force_complete()
    assert purgatory.watched <= 104


def test_a_closed_purgatory_sets_no_alarm() -> None:
    purgatory, alarms = made_purgatory()
    purgatory.try_complete_else_watch(Operation(10), ["a"])
    purgatory.close()
    purgatory.try_complete_else_watch(Operation(5), ["a"])
    assert alarms.wheel.next_deadline_ms() is None
