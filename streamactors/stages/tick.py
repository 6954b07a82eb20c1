"""tick: an element at a fixed rate. Also the handle that several sources materialize to be ended from outside."""

from __future__ import annotations

from typing import Any

from streamactors.clock import Duration
from streamactors.engine.attributes import Attributes
from streamactors.engine.connection import Connection
from streamactors.engine.logic import AsyncCallback, Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.stages.checks import span_ms


class Cancellable:
    """Ends a running source from any thread."""

    def __init__(self) -> None:
        self._cancelled = False
        self._tell: AsyncCallback[None]

    def cancel(self) -> bool:
        """Complete the source; return False if that was done before."""
        if self._cancelled:
            return False
        self._cancelled = True
        self._tell.invoke(None)
        return True

    @property
    def is_cancelled(self) -> bool:
        """True once `cancel` was called."""
        return self._cancelled


class Tick(GraphStage):
    """Emit an element after a first delay and then at a fixed interval. A tick for which there is no demand is skipped.

    Emits when: a tick is due and there is demand.   Completes when: the materialized Cancellable is cancelled.
    """

    shape = SOURCE

    def __init__(self, initial_delay: Duration, interval: Duration, element: Any) -> None:
        self._initial_ms = span_ms("tick", "initial_delay", initial_delay, zero=True)
        self._interval_ms = span_ms("tick", "interval", interval)
        self._element = element

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        handle = Cancellable()
        logic = _TickLogic(self._initial_ms, self._interval_ms, self._element)
        handle._tell = logic.async_callback(logic.cancelled)
        return logic, handle


class _TickLogic(SourceLogic):
    def __init__(self, initial_ms: float, interval_ms: float, element: Any) -> None:
        self._initial_ms = initial_ms
        self._interval_ms = interval_ms
        self._element = element

    def on_start(self) -> None:
        self.schedule_periodically("tick", self._initial_ms, self._interval_ms)

    def on_pull(self, out: Connection) -> None:
        """Demand is looked at when a tick is due."""

    def on_timer(self, key: object) -> None:
        if self.out.can_push:
            self.out.push([self._element])

    def cancelled(self, _: None) -> None:
        """The handle was used."""
        self.complete_stage()
