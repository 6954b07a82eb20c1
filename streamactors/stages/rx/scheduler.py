"""RxScheduler: RxPY's time operators on the engine's timers, so that they follow the system's clock, virtual or not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from reactivex import abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.internal.basic import default_now
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from streamactors.engine.logic import Logic
from streamactors.errors import StageFailed


class RxScheduler(PeriodicScheduler):
    """Runs actions without a delay at once, and others on the engine's timers, on the stage's island.

    Every action receives this scheduler, so that the actions it schedules in turn follow the same clock. `now` has a time zone
    if RxPY's own time has one (since RxPY 6.1)."""

    def __init__(self, logic: Logic, settle: Callable[[], None]) -> None:
        super().__init__()
        self._logic = logic
        self._settle = settle
        self._at_once = CurrentThreadScheduler.singleton()
        self._began_ms = logic.interpreter.now_ms()
        self._began = default_now()

    @property
    def now(self) -> datetime:
        return self._began + timedelta(milliseconds=self._logic.interpreter.now_ms() - self._began_ms)

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        return self._at_once.schedule(lambda _, given: self.invoke_action(action, given), state)

    def schedule_relative(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        delay_ms = self.to_seconds(duetime) * 1000.0
        if delay_ms <= 0:
            return self.schedule(action, state)
        disposable = SingleAssignmentDisposable()

        def run(_: None) -> None:
            if not disposable.is_disposed:
                disposable.disposable = self.invoke_action(action, state)
                self._settle()

        timer = self._logic.interpreter.call_later(delay_ms, self._logic, run, None)

        def dispose() -> None:
            timer.cancel()
            disposable.dispose()

        return Disposable(dispose)

    def schedule_absolute(self, duetime: Any, action: Any, state: Any = None) -> abc.DisposableBase:
        return self.schedule_relative(self.to_datetime(duetime) - self.now, action, state)

    @classmethod
    def to_datetime(cls, value: Any) -> datetime:
        """Return a point in time as RxPY does. Raises StageFailed for a datetime without a time zone where `now` has one."""
        if isinstance(value, datetime) and value.tzinfo is None and default_now().tzinfo is not None:
            raise StageFailed(f"rx: {value!r} has no time zone; use datetime.now(UTC) + timedelta(...)")
        return super().to_datetime(value)
