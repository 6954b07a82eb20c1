"""Deadlines that are moved a thousand times and fire once."""

from __future__ import annotations

from streamactors.actors.dispatching.timing_wheel import Timer, TimingWheel
from streamactors.broker.coordinator.deadlines import Deadlines


class Time:
    """A timing wheel moved by hand; counts what was armed."""

    def __init__(self) -> None:
        self.now = 0.0
        self.wheel = TimingWheel(lambda: self.now)
        self.armed = 0
        self.fired: list[tuple[str, str, float]] = []
        self.deadlines: Deadlines[str, str] = Deadlines(
            self, lambda: self.now, lambda key, event: self.fired.append((key, event, self.now))
        )

    def call_at(self, deadline_ms: float, fn) -> Timer:
        self.armed += 1
        return self.wheel.schedule(deadline_ms, fn)

    def pass_to(self, now: float) -> None:
        while self.now < now:
            self.now += 1
            self.wheel.advance(self.now)


def test_a_deadline_fires_once_with_its_last_event() -> None:
    time = Time()
    time.deadlines.set("a", 100, "first")
    time.pass_to(50)
    time.deadlines.set("a", 100, "second")
    time.pass_to(500)
    assert time.fired == [("a", "second", 150)]
    assert len(time.deadlines) == 0


def test_moving_a_deadline_on_does_not_touch_the_wheel() -> None:
    time = Time()
    time.deadlines.set("a", 1_000, "gone")
    for now in range(100, 3_001, 100):
        time.pass_to(now)
        time.deadlines.set("a", 1_000, "gone")
    assert time.armed <= 4
    time.pass_to(3_999)
    assert time.fired == []
    time.pass_to(4_001)
    assert [event for _, event, _ in time.fired] == ["gone"]


def test_a_deadline_moved_earlier_fires_earlier() -> None:
    time = Time()
    time.deadlines.set("a", 1_000, "late")
    time.deadlines.set("a", 10, "early")
    time.pass_to(2_000)
    assert [(event, at) for _, event, at in time.fired] == [("early", 10)]


def test_a_cancelled_deadline_never_fires() -> None:
    time = Time()
    time.deadlines.set("a", 10, "a")
    time.deadlines.set("b", 10, "b")
    time.deadlines.cancel("a")
    time.deadlines.cancel("never set")
    time.pass_to(100)
    assert [event for _, event, _ in time.fired] == ["b"]
    time.deadlines.set("c", 10, "c")
    time.deadlines.clear()
    time.pass_to(200)
    assert len(time.fired) == 1


def test_a_deadline_may_be_set_again_while_it_fires() -> None:
    time = Time()
    again = Deadlines(time, lambda: time.now, lambda key, event: again.set(key, 10, event) if time.now < 35 else None)
    again.set("a", 10, "tick")
    time.pass_to(30)
    assert "a" in again
    time.pass_to(100)
    assert "a" not in again
