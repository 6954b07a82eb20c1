"""An observable as a source: its elements, emitted on any thread, go through a bounded buffer."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from threading import get_ident
from typing import Any

from reactivex import abc

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import SourceLogic, logic_of
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.errors import BufferOverflow, BuildError
from streamactors.gauges import Gauge
from streamactors.stages.checks import positive
from streamactors.stages.rate.strategies import make_room
from streamactors.stages.rx.overflow import Flooded, checked_overflow


class FromObservable(GraphStage):
    """The stage of `Source.from_observable`."""

    shape = SOURCE
    name = "from_observable"

    def __init__(self, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> None:
        if not hasattr(observable, "subscribe"):
            raise BuildError(f"from_observable expects an observable, got {type(observable).__name__}")
        self.observable = observable
        self.overflow = checked_overflow("from_observable", overflow)
        self.max_buffer = positive("from_observable", "max_buffer", max_buffer)


@logic_of(FromObservable)
class _FromObservableLogic(SourceLogic):
    def __init__(self, stage: FromObservable) -> None:
        super().__init__(stage)
        self._arrived: deque[Any] = deque()
        self._gauge = Gauge("from_observable: elements that wait for demand", stage.max_buffer)
        self._told = False
        self._end: list[BaseException | None] = []
        self._subscription: abc.DisposableBase | None = None
        self._subscribing: int | None = None  # the thread that is inside `subscribe`

    def on_start(self) -> None:
        self._wake = self.async_callback(self._on_wake)
        self._subscribing = get_ident()
        try:
            self._subscription = self.stage.observable.subscribe(self._next, self._failed, self._completed)
        except Flooded:
            pass  # the error is in `_end`
        finally:
            self._subscribing = None

    # ── on the observable's thread ────────────────────────────────────────────────────────────────────────────────

    def _next(self, value: Any) -> None:
        arrived = self._arrived
        if self._end:
            return  # the buffer has overflowed, and the observable still emits until it is disposed
        if len(arrived) >= self.stage.max_buffer and not self._make_room():
            return
        arrived.append(value)
        self._gauge.reached(len(arrived))
        self._tell()

    def _make_room(self) -> bool:
        try:
            if make_room(self.stage.overflow, self._arrived):
                return True
            if self.stage.overflow == "fail":
                self._failed(
                    BufferOverflow(
                        f"from_observable: {self.stage.max_buffer} elements wait for demand and another one came; "
                        "raise max_buffer or choose another overflow"
                    )
                )
                if self._subscribing == get_ident():
                    raise Flooded  # the observable emits inside `subscribe`, perhaps without end: only an error ends its loop
        except IndexError:
            return True  # the stage has just emptied the buffer
        return False

    def _failed(self, error: BaseException) -> None:
        self._end.append(error)
        self._tell()

    def _completed(self) -> None:
        self._end.append(None)
        self._tell()

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            self._wake.invoke(None)

    # ── on the island ─────────────────────────────────────────────────────────────────────────────────────────────

    def _on_wake(self, _: None) -> None:
        self._told = False
        self.on_pull(self.out)

    def on_pull(self, out: Connection) -> None:
        ended = bool(self._end)  # read before the buffer: every element emitted before the end is in the buffer now
        arrived = self._arrived
        chunk: list[Any] = []
        with suppress(IndexError):  # the observable's thread has dropped some since the look
            chunk.extend(arrived.popleft() for _ in range(min(out.asked, len(arrived))))
        if chunk:
            out.push(chunk)
        if ended:
            error = self._end[0]
            if error is not None:
                self.fail_stage(error)
            elif not arrived:
                self.complete_stage()

    def on_stop(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()
