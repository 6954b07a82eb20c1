"""The clocks alone: the virtual clock over members that do their work on other threads."""

from __future__ import annotations

import concurrent.futures
import threading
from datetime import timedelta

import pytest

from streamactors.actors.dispatching.dispatcher import Dispatcher
from streamactors.actors.dispatching.timing_wheel import TimingWheel
from streamactors.clock import NotQuiescent, SystemClock, VirtualClock
from streamactors.errors import StreamActorsError


def test_the_system_clock_only_grows() -> None:
    clock = SystemClock()
    readings = [clock.now_ms() for _ in range(100)]
    assert readings == sorted(readings)
    assert clock.wall_ms() > 1_700_000_000_000


class Member:
    """Runs its wheel's timers on the advancing thread."""

    def __init__(self, clock: VirtualClock, name: str) -> None:
        self.name = name
        self.clock = clock
        self.wheel = TimingWheel(clock.now_ms)
        self.turns = 0
        clock.attach(self)

    def next_deadline_ms(self) -> float | None:
        return self.wheel.next_deadline_ms()

    def clock_moved(self) -> None:
        self.turns += self.wheel.advance(self.clock.now_ms())

    def quiet_since(self) -> int | None:
        return self.turns


def test_advance_goes_through_every_timer_of_every_member_in_order() -> None:
    clock = VirtualClock()
    seen: list[tuple[str, float]] = []
    a, b = Member(clock, "a"), Member(clock, "b")
    for member, deadline in [(a, 30.0), (b, 10.0), (a, 20.5), (b, 40.0)]:
        member.wheel.schedule(deadline, lambda m=member: seen.append((m.name, clock.now_ms())))
    clock.advance("35ms")
    assert seen == [("b", 10.0), ("a", 20.5), ("a", 30.0)]
    assert clock.now_ms() == 35
    clock.detach(b)
    clock.advance("1h")
    assert len(seen) == 3


def test_a_timer_set_on_the_way_fires_at_its_own_time() -> None:
    clock = VirtualClock()
    member = Member(clock, "m")
    times: list[float] = []

    def tick() -> None:
        times.append(clock.now_ms())
        member.wheel.schedule(clock.now_ms() + 1_000, tick)

    member.wheel.schedule(1_000, tick)
    clock.advance("1h")
    assert times == [1_000.0 * k for k in range(1, 3_601)]


def test_the_wall_clock_moves_along() -> None:
    clock = VirtualClock(wall_start_ms=1_000)
    clock.advance(timedelta(seconds=2))
    assert clock.wall_ms() == 3_000


def test_advance_waits_for_work_on_other_threads_and_names_what_never_rests() -> None:
    clock = VirtualClock()
    resting = threading.Event()

    class Busy(Member):
        def quiet_since(self) -> int | None:
            return 0 if resting.is_set() else None

    Busy(clock, "the busy one")
    with pytest.raises(NotQuiescent, match="the busy one"):
        clock.advance("1ms", patience_s=0.02)
    helper = threading.Timer(0.02, lambda: (resting.set(), clock.notify()))
    helper.start()
    clock.advance("1ms")
    assert resting.is_set()
    helper.join()


def test_at_rest_means_at_rest_at_the_same_moment() -> None:
    # While the second member is looked at, it hands work to the first, which had just been seen at rest.
    clock = VirtualClock()
    script: list[tuple[str, int | None]] = [
        ("first", 0), ("second", 7),  # at rest, one after the other
        ("first", None),  # but not together
        ("first", 1), ("second", 8), ("first", 1), ("second", 8),
    ]  # fmt: skip
    times_settled = 0

    class Scripted(Member):
        def quiet_since(self) -> int | None:
            if not script:
                return 9
            name, number = script.pop(0)
            assert name == self.name
            return number

        def clock_moved(self) -> None:
            nonlocal times_settled
            times_settled += 1
            assert not script, "the time moved before everybody was at rest together"

    for name in ("first", "second"):
        Scripted(clock, name)
    clock.advance("1ms")
    assert times_settled == 2


def test_time_does_not_go_back() -> None:
    with pytest.raises(ValueError, match="negative"):
        VirtualClock().advance(-1)


def test_advance_on_a_thread_it_would_wait_for_is_refused() -> None:
    clock = VirtualClock()
    dispatcher = Dispatcher("waited for", clock)
    outcome: concurrent.futures.Future[object] = concurrent.futures.Future()

    def advance() -> None:
        try:
            clock.advance("1ms")
            outcome.set_result(None)
        except StreamActorsError as error:
            outcome.set_result(error)

    dispatcher.execute(advance)
    assert "'waited for'" in str(outcome.result(10))
    assert dispatcher.stop()
