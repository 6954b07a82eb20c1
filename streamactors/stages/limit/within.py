"""take_within, drop_within: pass a part of the stream by the time since its start, on the system's clock.

Marks pass at once and exactly. Both remember when the stream started."""

from __future__ import annotations

from typing import Any

from streamactors.durations import Duration
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import EXACT_MEMORY
from streamactors.engine.stage import In, Stage
from streamactors.stages.bases.passing import PassingLogic
from streamactors.stages.checks import span_ms


class TakeWithin(Stage[In, In]):
    """The stage of `Source.take_within`."""

    handling = EXACT_MEMORY

    def __init__(self, span: Duration) -> None:
        self.span_ms = span_ms("take_within", "span", span)


@logic_of(TakeWithin)
class _TakeWithinLogic(PassingLogic):
    stage: TakeWithin[Any]

    def on_start(self) -> None:
        self.schedule_once("over", self.stage.span_ms)

    def on_timer(self, key: object) -> None:
        self.complete_stage()


class DropWithin(Stage[In, In]):
    """The stage of `Source.drop_within`."""

    handling = EXACT_MEMORY

    def __init__(self, span: Duration) -> None:
        self.span_ms = span_ms("drop_within", "span", span)


@logic_of(DropWithin)
class _DropWithinLogic(PassingLogic):
    stage: DropWithin[Any]
    _dropping = True

    def on_start(self) -> None:
        self._over_ms = self.interpreter.now_ms() + self.stage.span_ms

    def on_push(self, in_: Connection) -> None:
        if self._dropping:
            self._dropping = self.interpreter.now_ms() < self._over_ms
            if self._dropping:
                in_.grab(in_.ready)
                in_.want(self.out.asked)
                return
        super().on_push(in_)
