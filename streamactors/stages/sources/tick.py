"""tick: an element at a fixed rate. Cancellable: the handle by which other code completes the source."""

from __future__ import annotations

from typing import Any

from streamactors.durations import Duration
from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import AsyncCallback, Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.stages.checks import span_ms


class Cancellable:
    """Completes a running source. Any thread."""

    def __init__(self) -> None:
        self._cancelled = False
        self._tell: AsyncCallback[None]

    def cancel(self) -> bool:
        """Complete the source; return False if `cancel` was called before."""
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
    """The stage of `Source.tick`."""

    traits = StageTraits(endless=True)
    shape = SOURCE

    def __init__(self, initial_delay: Duration, interval: Duration, element: Any) -> None:
        self.initial_ms = span_ms("tick", "initial_delay", initial_delay, zero=True)
        self.interval_ms = span_ms("tick", "interval", interval)
        self.element = element

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        handle = Cancellable()
        logic = _TickLogic(self)
        handle._tell = logic.async_callback(logic.cancelled)
        return logic, handle


class _TickLogic(SourceLogic):
    stage: Tick

    def on_start(self) -> None:
        # Demand arrives after the start: a timer of 0 ms that is faster would skip the first tick.
        self._at_once = not self.stage.initial_ms
        self.schedule_periodically("tick", self.stage.initial_ms or self.stage.interval_ms, self.stage.interval_ms)

    def on_pull(self, out: Connection) -> None:
        """Emit a first tick without delay at the first demand; every other due tick checks the demand itself."""
        if self._at_once:
            self.on_timer("tick")

    def on_timer(self, key: object) -> None:
        if self.out.can_push:
            self._at_once = False
            self.out.push([self.stage.element])

    def cancelled(self, _: None) -> None:
        """The handle was used."""
        self.complete_stage()
