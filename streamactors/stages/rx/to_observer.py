"""A stream as an observable: each subscription is a run; demand follows the observer's return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import reactivex
from reactivex import abc
from reactivex.disposable import Disposable

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.causes import NO_MORE_ELEMENTS
from streamactors.engine.island.connection import Connection
from streamactors.engine.island.pace import Pace
from streamactors.engine.logic import Logic
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage
from streamactors.engine.user_code import blame


class ToObserver(GraphStage):
    """Call an observer for each element, on the stream's island; demand follows the observer's return. Materializes a future."""

    shape = SINK
    name = "as_observable"

    def __init__(self, observer: Any) -> None:
        self.observer = observer

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _ToObserverLogic(self)
        return logic, logic


class _ToObserverLogic(SinkLogic):
    stage: ToObserver

    def on_start(self) -> None:
        self._pace = Pace(self.interpreter, self.attributes.max_chunk)
        self.in_.want(self._pace.window)

    def on_push(self, in_: Connection) -> None:
        pace = self._pace
        on_next = self.stage.observer.on_next
        stop = self.interpreter.stop_slice
        try:
            for element in pace.take(in_, pace.limit):
                on_next(element)
                if stop:
                    break
        except BaseException as error:
            blame(error, self.name, pace.element)
            raise
        finally:
            pace.give_back(in_)
        in_.want(pace.window)

    def on_complete(self, in_: Connection) -> None:
        self.succeed(None)
        self.stage.observer.on_completed()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        super().on_fail(in_, error)
        self.stage.observer.on_error(error)

    def dispose(self) -> None:
        """Cancel the stream; any thread."""
        self.async_callback(self._dispose).invoke(None)

    def _dispose(self, _: None) -> None:
        self.in_.cancel(NO_MORE_ELEMENTS)
        if not self.future.done():
            self.future.set_result(None)


def as_observable(run: Callable[[GraphStage], _ToObserverLogic]) -> reactivex.Observable[Any]:
    """Return a cold observable: each subscription calls `run(sink)`, which starts the stream into that sink."""

    def subscribe(observer: Any, scheduler: abc.SchedulerBase | None = None) -> abc.DisposableBase:
        return Disposable(run(ToObserver(observer)).dispose)

    return reactivex.create(subscribe)
