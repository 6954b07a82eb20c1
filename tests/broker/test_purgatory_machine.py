"""The purgatory under random histories: against a model, and with completions that breed operations."""

from __future__ import annotations

import random
from collections.abc import Hashable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.broker.purgatory_world import Operation, made_purgatory


class PurgatoryMachine(RuleBasedStateMachine):
    """Against a model: sets of true conditions, and who must have been completed by now."""

    @initialize()
    def begin(self) -> None:
        self.purgatory, self.alarms = made_purgatory(purge_interval=3)
        self.true_keys: set[Hashable] = set()
        self.operations: list[tuple[Operation, list[int], float]] = []

    @rule(keys=st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True), delay_ms=st.integers(0, 50))
    def watch(self, keys: list[int], delay_ms: int) -> None:
        operation = Operation(delay_ms, lambda: any(key in self.true_keys for key in keys))
        self.operations.append((operation, keys, self.alarms.clock.time_ms + delay_ms))
        completed = self.purgatory.try_complete_else_watch(operation, keys)
        assert completed == any(key in self.true_keys for key in keys)

    @rule(key=st.integers(0, 4))
    def becomes_true(self, key: int) -> None:
        self.true_keys.add(key)
        self.purgatory.check_and_complete(key)

    @rule(key=st.integers(0, 4))
    def becomes_false(self, key: int) -> None:
        self.true_keys.discard(key)

    @rule(duration_ms=st.integers(0, 30))
    def time_passes(self, duration_ms: int) -> None:
        before = {entry[0]: entry[0].expirations for entry in self.operations if not entry[0].completed}
        self.alarms.advance(duration_ms)
        for operation, _, deadline_ms in self.operations:
            if operation in before:
                assert operation.completed == (deadline_ms <= self.alarms.clock.time_ms)
                assert operation.expirations == int(operation.completed)

    @rule(index=st.integers(0, 100))
    def somebody_forces(self, index: int) -> None:
        if self.operations:
            operation = self.operations[index % len(self.operations)][0]
            before = operation.completions
            assert operation.force_complete() == (before == 0)

    @invariant()
    def exactly_one_winner(self) -> None:
        for operation, _, _ in getattr(self, "operations", ()):
            assert operation.completions <= 1
            assert operation.completed == (operation.completions == 1)

    @invariant()
    def nobody_waits_whose_condition_holds_or_whose_time_is_up(self) -> None:
        for operation, keys, deadline_ms in getattr(self, "operations", ()):
            if not operation.completed:
                assert not any(key in self.true_keys for key in keys)
                assert deadline_ms >= self.alarms.clock.time_ms

    @invariant()
    def one_alarm_is_set_no_later_than_the_first_deadline(self) -> None:
        waiting = [deadline_ms for each, _, deadline_ms in getattr(self, "operations", ()) if not each.completed]
        if hasattr(self, "purgatory"):
            assert len(self.alarms.wheel) <= 1
        if waiting:
            alarm_ms = self.alarms.wheel.next_deadline_ms()
            assert alarm_ms is not None
            assert alarm_ms <= min(waiting)

    @invariant()
    def the_gauges_are_right(self) -> None:
        waiting = [entry for entry in getattr(self, "operations", ()) if not entry[0].completed]
        if hasattr(self, "purgatory"):
            assert self.purgatory.delayed == len(waiting)
            assert self.purgatory.watched >= sum(len(keys) for _, keys, _ in waiting)


PurgatoryMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
TestPurgatoryMachine = PurgatoryMachine.TestCase


@given(seed=st.integers(0, 1 << 30))
@settings(max_examples=20, deadline=None)
def test_nothing_is_lost_when_completions_breed_operations(seed: int) -> None:
    """Every completion may watch new operations and change any key, in any order; in the end all of them have
    completed."""
    rng = random.Random(seed)
    purgatory, alarms = made_purgatory(purge_interval=5)
    levels = [0] * 4
    made: list[Operation] = []

    def watch() -> None:
        key = rng.randrange(4)
        wanted = levels[key] + rng.randrange(3)
        operation = Operation(rng.choice([5, 1_000_000]), lambda: levels[key] >= wanted)
        made.append(operation)
        if len(made) < 300:
            operation.then = breed
        purgatory.try_complete_else_watch(operation, [key, rng.randrange(4)])

    def breed() -> None:
        for _ in range(rng.randrange(3)):
            watch()
        key = rng.randrange(4)
        levels[key] += 1
        purgatory.check_and_complete(key)

    watch()
    for _ in range(200):
        alarms.advance(1)
        breed()
    for key in range(4):
        levels[key] += 10
        purgatory.check_and_complete(key)
    alarms.advance(10)
    assert all(operation.completions == 1 for operation in made)
    assert purgatory.delayed == 0
