"""RxScheduler: RxPY's time operators on the engine's timers, so that they follow the system's clock, virtual or not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from reactivex import abc
from reactivex.disposable import Disposable, SingleAssignmentDisposable
from reactivex.scheduler import CurrentThreadScheduler
from reactivex.scheduler.periodicscheduler import PeriodicScheduler

from streamactors.engine.logic import Logic


class RxScheduler(PeriodicScheduler):
    """Runs actions without a delay at once, and others on the engine's timers, on the stage's island."""

    def __init__(self, logic: Logic, settle: Callable[[], None]) -> None:
        super().__init__()
        self._logic = logic
        self._settle = settle
        self._at_once = CurrentThreadScheduler.singleton()
        self._began_ms = logic.interpreter.now_ms()
        self._began = datetime.now(UTC).replace(tzinfo=None)

    @property
    def now(self) -> datetime:
        return self._began + timedelta(milliseconds=self._logic.interpreter.now_ms() - self._began_ms)

    def schedule(self, action: Any, state: Any = None) -> abc.DisposableBase:
        return self._at_once.schedule(action, state)

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
