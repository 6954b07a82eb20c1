"""switch_map: the source of the latest element; the one before is cancelled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, logic_of
from streamactors.engine.marks.marks import BLURS_MEMORY, Epochs, Handling, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import failure_of
from streamactors.stages.bases.inner import source_module
from streamactors.stages.checks import plain_function


class SwitchMap(GraphStage):
    """The stage of `Source.switch_map`."""

    handling: Handling = BLURS_MEMORY
    traits = StageTraits(inner_sources="runs")

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        self.fn = plain_function("switch_map", fn)


@logic_of(SwitchMap)
class _SwitchLogic(Logic):
    def __init__(self, stage: SwitchMap) -> None:
        super().__init__(stage)
        self._inner: Connection | None = None
        self._epoch = 0
        self._epochs = Epochs()
        self._upstream_done = False

    def on_start(self) -> None:
        self.inlets[0].want(1)

    def on_pull(self, out: Connection) -> None:
        if self._inner is not None:
            self._inner.want(out.asked)

    def on_push(self, in_: Connection) -> None:
        out = self.outlets[0]
        if in_ is not self.inlets[0]:
            if in_ is self._inner:
                chunk = in_.grab(out.asked)
                if chunk:
                    out.push(chunk)
                in_.want(out.asked)
            return
        for element in in_.grab(1):
            self._switch(element)
        if not self.stopped:
            in_.want(1)

    def _switch(self, element: Any) -> None:
        try:
            module = source_module(self.name, self.stage.fn(element))
        except BaseException as error:  # noqa: BLE001  # the user's function
            failure = failure_of(self, error, element, self.stage.fn)
            if failure is not None:
                self.fail_stage(failure)
            return
        self._end_inner()
        _, (self._inner,), _ = attach(self, module)
        self._epoch = self._epochs.enter()
        self.inlets.append(self._inner)  # so that it is cancelled with the stage
        self._inner.want(self.outlets[0].asked)

    def _end_inner(self) -> None:
        inner, self._inner = self._inner, None
        if inner is not None:
            self.inlets.remove(inner)
            inner.cancel()
            self._pass(self._epochs.leave(self._epoch))

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is self.inlets[0]:
            self._pass(self._epochs.mark(mark.copy() if isinstance(mark, dict) else mark))
        elif in_ is self._inner:
            self.outlets[0].mark(mark)

    def _pass(self, marks: list[Mark]) -> None:
        for mark in marks:
            self.outlets[0].mark(mark)

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
        elif in_ is self._inner:
            self._inner = None
            self.inlets.remove(in_)
            self._pass(self._epochs.leave(self._epoch))
        if self._upstream_done and self._inner is None:
            self.complete_stage()

    def snapshot_state(self) -> str:
        return "runs a source" if self._inner is not None else "waits for an element"
