"""Laws of the timing wheel: it does what a sorted list would do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from streamactors.actors.dispatching.timing_wheel import Timer, TimingWheel


def wheel_at(now_ms: float = 0.0, tick_ms: float = 1.0) -> TimingWheel:
    return TimingWheel(lambda: now_ms, tick_ms)


def fired_by(wheel: TimingWheel, deadlines: list[float], until_ms: float) -> list[float]:
    fired: list[float] = []
    for deadline in deadlines:
        wheel.schedule(deadline, lambda deadline=deadline: fired.append(deadline))
    wheel.advance(until_ms)
    return fired


def test_timers_fire_in_order_of_deadline_within_and_across_ticks() -> None:
    deadlines = [5.7, 5.2, 3.0, 1_000_000.0, 1024.0, 1023.9, 70_000.5, 0.0]
    assert fired_by(wheel_at(), deadlines, 2_000_000.0) == sorted(deadlines)


def test_equal_deadlines_fire_in_the_order_set_although_set_from_different_distances() -> None:
    fired: list[str] = []
    wheel = wheel_at()
    wheel.schedule(5_000, lambda: fired.append("set from 5000 ms away"))
    wheel.advance(4_900)
    wheel.schedule(5_000, lambda: fired.append("set from 100 ms away"))
    wheel.advance(5_000)
    wheel.schedule(5_000, lambda: fired.append("set when due"))
    wheel.advance(5_000)
    assert fired == ["set from 5000 ms away", "set from 100 ms away", "set when due"]


def test_a_timer_never_fires_before_its_deadline_even_within_the_tick() -> None:
    wheel = wheel_at()
    timer = wheel.schedule(10.7, lambda: None)
    assert wheel.advance(10.69) == 0
    assert timer.pending
    assert wheel.next_deadline_ms() == 10.7
    assert wheel.advance(10.7) == 1


def test_a_cancelled_timer_does_not_fire_and_is_not_counted() -> None:
    wheel = wheel_at()
    timer = wheel.schedule(10, lambda: pytest.fail("fired although cancelled"))
    assert len(wheel) == 1
    assert timer.cancel()
    assert len(wheel) == 0
    assert wheel.next_deadline_ms() is None
    assert not timer.cancel()
    assert wheel.advance(1_000) == 0


def test_a_callback_can_cancel_a_timer_of_the_same_tick() -> None:
    wheel = wheel_at()
    fired: list[str] = []
    victims: list[Timer] = []
    wheel.schedule(10, lambda: victims[0].cancel())
    victims.append(wheel.schedule(10, lambda: fired.append("victim")))
    wheel.schedule(10, lambda: fired.append("bystander"))
    assert wheel.advance(10) == 2
    assert fired == ["bystander"]
    assert len(wheel) == 0


def test_what_a_callback_sets_fires_at_the_next_advance_at_the_earliest() -> None:
    wheel = wheel_at()
    fired: list[int] = []

    def rearm() -> None:
        fired.append(1)
        wheel.schedule(0, rearm)

    wheel.schedule(0, rearm)
    wheel.advance(5)
    wheel.advance(5)
    assert len(fired) == 2
    assert len(wheel) == 1


def test_a_raising_callback_loses_no_other_timer() -> None:
    wheel = wheel_at()
    fired: list[int] = []

    def broken() -> None:
        raise RuntimeError("broken")

    wheel.schedule(1, lambda: fired.append(1))
    wheel.schedule(2, broken)
    wheel.schedule(3, lambda: fired.append(3))
    with pytest.raises(RuntimeError, match="broken"):
        wheel.advance(100)
    assert fired == [1]
    assert len(wheel) == 1
    assert wheel.next_deadline_ms() == 3
    assert wheel.advance(100) == 1
    assert fired == [1, 3]


def test_a_callback_that_raises_in_mid_tick_loses_no_timer_due_in_the_same_tick() -> None:
    # Only part of the tick's timers is due, so the wheel splits the tick; the split part must survive the error.
    wheel = wheel_at()
    fired: list[float] = []

    def broken() -> None:
        raise BrokenCallback

    wheel.schedule(10.1, broken)
    wheel.schedule(10.2, lambda: fired.append(10.2))
    wheel.schedule(10.9, lambda: fired.append(10.9))
    with pytest.raises(BrokenCallback):
        wheel.advance(10.5)
    assert len(wheel) == 2
    assert wheel.next_deadline_ms() == 10.2
    assert wheel.advance(10.5) == 1
    assert fired == [10.2]
    assert wheel.advance(11) == 1
    assert fired == [10.2, 10.9]


def test_time_does_not_go_back() -> None:
    wheel = wheel_at(1_000)
    wheel.advance(2_000)
    timer = wheel.schedule(1_500, lambda: None)
    assert wheel.advance(1_400) == 0
    assert timer.pending
    assert wheel.advance(2_000) == 1


def test_next_deadline_of_many_distant_timers_is_never_late() -> None:
    wheel = wheel_at()
    for k in range(1_000):
        wheel.schedule(100_000 + k / 10, lambda: None)
    due = wheel.next_deadline_ms()
    assert due is not None
    assert due <= 100_000
    fired, steps = 0, 0
    while (due := wheel.next_deadline_ms()) is not None:
        fired += wheel.advance(due)
        steps += 1
    assert fired == 1_000
    assert steps <= 1_003


@pytest.mark.parametrize("deadline", [float("inf"), float("nan"), float("-inf")])
def test_a_deadline_that_is_no_number_is_refused(deadline: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        wheel_at().schedule(deadline, lambda: None)


@pytest.mark.parametrize("tick_ms", [0, -1, float("inf"), float("nan")])
def test_a_tick_that_is_no_width_is_refused(tick_ms: float) -> None:
    with pytest.raises(ValueError, match="tick_ms"):
        wheel_at(tick_ms=tick_ms)


_DELAYS = st.one_of(
    st.integers(-5, 40).map(float),
    st.floats(0, 3, allow_nan=False),
    st.integers(1_000, 1_050).map(float),
    st.sampled_from([1_023.0, 1_024.0, 1_025.0, 1_048_575.0, 1_048_576.0, 1_048_577.0, 2.0**31, 2.0**40 + 0.5]),
    st.floats(0, 2_000_000, allow_nan=False),
)


class BrokenCallback(Exception):
    pass


class WheelAgainstSortedList(RuleBasedStateMachine):
    """Model: a list of (deadline, sequence), of which `advance` takes what is due, sorted."""

    tick_ms = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.wheel = TimingWheel(lambda: 1_000.0, self.tick_ms)
        self.model: dict[int, float] = {}
        self.timers: dict[int, Timer] = {}
        self.fired: list[int] = []
        self.sequence = 0

    def set_timer(self, deadline: float, and_then: Callable[[], None] | None = None) -> int:
        number = self.sequence = self.sequence + 1

        def fire() -> None:
            self.fired.append(number)
            if and_then is not None:
                and_then()

        self.timers[number] = self.wheel.schedule(deadline, fire)
        self.model[number] = deadline
        return number

    @rule(delay=_DELAYS)
    def schedule(self, delay: float) -> None:
        self.set_timer(self.now + delay)

    @rule(delay=_DELAYS, again=_DELAYS)
    def schedule_one_that_sets_another(self, delay: float, again: float) -> None:
        self.set_timer(self.now + delay, lambda: void(self.set_timer(self.now + again)))

    @precondition(lambda self: self.timers)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        number = data.draw(st.sampled_from(sorted(self.timers)))
        assert self.timers[number].cancel() == (number in self.model)
        self.model.pop(number, None)

    @rule(delay=_DELAYS)
    def schedule_one_that_raises(self, delay: float) -> None:
        def broken() -> None:
            raise BrokenCallback

        self.set_timer(self.now + delay, broken)

    @rule(step=_DELAYS)
    def advance(self, step: float) -> None:
        """A callback that raises ends the call; the timers behind it fire in the next call, before those set since."""
        self.now += max(step, 0.0)
        due = self.take_due()
        while True:
            self.fired.clear()
            try:
                assert self.wheel.advance(self.now) == len(due)
            except BrokenCallback:
                fired = len(self.fired)
                assert self.fired == due[:fired]
                assert len(self.wheel) == len(due) - fired + len(self.model)
                due = due[fired:] + self.take_due()
            else:
                assert self.fired == due
                return

    def take_due(self) -> list[int]:
        due = sorted((deadline, number) for number, deadline in self.model.items() if deadline <= self.now)
        for _, number in due:
            del self.model[number]
        return [number for _, number in due]

    @precondition(lambda self: self.model)
    @rule()
    def advance_to_the_next_deadline(self) -> None:
        due = self.wheel.next_deadline_ms()
        assert due is not None
        self.advance(max(due - self.now, 0.0))

    @invariant()
    def the_count_is_exact(self) -> None:
        assert len(self.wheel) == len(self.model)

    @invariant()
    def the_next_deadline_is_never_late(self) -> None:
        due = self.wheel.next_deadline_ms()
        assert (due is None) == (not self.model)
        if due is not None:
            assert due <= min(self.model.values())


_EDGES = st.builds(lambda block, beside: block * 1_024 + beside, st.integers(0, 5), st.integers(-2, 2))


@given(st.lists(st.tuples(_EDGES, st.integers(0, 4).map(lambda n: n * 500)), min_size=2, max_size=30))
def test_equal_deadlines_fire_in_the_order_set_at_the_edges_of_blocks(steps: list[tuple[int, int]]) -> None:
    """A timer that waits on a coarse level must come down before a later one of the same deadline is set on the finest level."""
    wheel, now = wheel_at(), 0
    fired: list[int] = []
    for number, (deadline, step) in enumerate(steps):
        wheel.schedule(deadline, lambda number=number: fired.append(number))
        now += step
        wheel.advance(now)
    wheel.advance(10_000)
    assert sorted(fired) == list(range(len(steps)))
    for deadline, _ in steps:
        equal = [number for number in fired if steps[number][0] == deadline]
        assert equal == sorted(equal)


def void(_: object) -> None:
    return None


class CoarseWheelAgainstSortedList(WheelAgainstSortedList):
    tick_ms = 7.3


TestWheelAgainstSortedList = WheelAgainstSortedList.TestCase
TestWheelAgainstSortedList.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestCoarseWheelAgainstSortedList = CoarseWheelAgainstSortedList.TestCase
TestCoarseWheelAgainstSortedList.settings = settings(max_examples=40, stateful_step_count=60, deadline=None)
