"""A purgatory with a clock, alarms and operations that a test moves by hand."""

from __future__ import annotations

from collections.abc import Callable

from streamactors.actors.dispatching.timing_wheel import Timer, TimingWheel
from streamactors.broker.purgatory import DelayedOperation, Purgatory


class FakeClock:
    """Time that stands still until it is set."""

    def __init__(self) -> None:
        self.time_ms = 0.0

    def now_ms(self) -> float:
        return self.time_ms

    def wall_ms(self) -> int:
        return int(self.time_ms)


class FakeAlarms:
    """A dispatcher's timers, run by hand."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.wheel = TimingWheel(self.clock.now_ms)

    def call_at(self, deadline_ms: float, fn: Callable[[], object]) -> Timer:
        return self.wheel.schedule(deadline_ms, fn)

    def advance(self, duration_ms: float) -> None:
        self.clock.time_ms += duration_ms
        while self.wheel.advance(self.clock.time_ms):
            pass


class Operation(DelayedOperation):
    """Completes when its condition says so; counts what happens to it."""

    __slots__ = ("completions", "condition", "expirations", "then")

    def __init__(self, delay_ms: float, condition: Callable[[], bool] = lambda: False) -> None:
        super().__init__(delay_ms)
        self.condition = condition
        self.completions = 0
        self.expirations = 0
        self.then: Callable[[], object] = lambda: None

    def try_complete(self) -> bool:
        return self.force_complete() if self.condition() else False

    def on_complete(self) -> None:
        self.completions += 1
        self.then()

    def on_expiration(self) -> None:
        self.expirations += 1


def made_purgatory(purge_interval: int = 1000) -> tuple[Purgatory, FakeAlarms]:
    alarms = FakeAlarms()
    return Purgatory("Test", alarms, purge_interval), alarms
