"""An observable as a source: what it emits, on whatever thread, goes through a bounded buffer."""

from __future__ import annotations

from collections import deque
from threading import get_ident
from typing import Any

from reactivex import abc

from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import NOT_USED, SOURCE, GraphStage
from streamactors.errors import BufferOverflow, BuildError
from streamactors.stages.checks import positive
from streamactors.stages.rx.overflow import Flooded, checked_overflow


class FromObservable(GraphStage):
    """Emit what an observable emits. It has no demand, so a bounded buffer lies between.

    Emits when: the observable has emitted and there is demand.   Completes when: the observable does and the buffer is empty.
    When the buffer is full: "fail" fails the stream, "drop_head" drops the oldest, "drop_tail" the newest one buffered,
    "drop_new" the one that comes. The subscription is disposed when downstream cancels.
    """

    shape = SOURCE
    name = "from_observable"

    def __init__(self, observable: Any, overflow: str = "fail", max_buffer: int = 1_024) -> None:
        if not hasattr(observable, "subscribe"):
            raise BuildError(f"from_observable expects an observable, got {type(observable).__name__}")
        self._observable = observable
        self._overflow = checked_overflow("from_observable", overflow)
        self._max_buffer = positive("from_observable", "max_buffer", max_buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        return _FromObservableLogic(self._observable, self._overflow, self._max_buffer), NOT_USED


class _FromObservableLogic(SourceLogic):
    def __init__(self, observable: Any, overflow: str, max_buffer: int) -> None:
        self._observable = observable
        self._overflow = overflow
        self._max_buffer = max_buffer
        self._arrived: deque[Any] = deque()
        self._told = False
        self._end: list[BaseException | None] = []
        self._subscription: abc.DisposableBase | None = None
        self._subscribing: int | None = None  # the thread that does, while it does

    def on_start(self) -> None:
        self._wake = self.async_callback(self._on_wake)
        self._subscribing = get_ident()
        try:
            self._subscription = self._observable.subscribe(self._next, self._failed, self._completed)
        except Flooded:
            pass  # the error has been noted
        finally:
            self._subscribing = None

    # ── on whatever thread the observable uses ────────────────────────────────────────────────────────────────────

    def _next(self, value: Any) -> None:
        arrived = self._arrived
        if self._end:
            return  # it has failed, and goes on until it hears of it
        if len(arrived) >= self._max_buffer and not self._make_room():
            return
        arrived.append(value)
        self._tell()

    def _make_room(self) -> bool:
        try:
            if self._overflow == "drop_head":
                self._arrived.popleft()
            elif self._overflow == "drop_tail":
                self._arrived.pop()
            elif self._overflow == "drop_new":
                return False
            else:
                self._failed(
                    BufferOverflow(
                        f"from_observable: {self._max_buffer} elements wait for demand and another one came; "
                        "raise max_buffer or choose another overflow"
                    )
                )
                if self._subscribing == get_ident():
                    raise Flooded  # it emits from within subscribe, perhaps without end: only this ends its loop
                return False
        except IndexError:
            pass  # the stage has just emptied it
        return True

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
        ended = bool(self._end)  # looked at first: what was emitted before the end is in the buffer by now
        arrived = self._arrived
        n = min(out.asked, len(arrived))
        if n:
            out.push([arrived.popleft() for _ in range(n)])
        if ended:
            error = self._end[0]
            if error is not None:
                self.fail_stage(error)
            elif not arrived:
                self.complete_stage()

    def on_stop(self) -> None:
        if self._subscription is not None:
            self._subscription.dispose()
