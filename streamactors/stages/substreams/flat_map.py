"""Flattening: flat_map_concat and flat_map_merge. Inner sources run inside the stage's own island (engine/island: attach)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import logic_of
from streamactors.engine.marks.marks import BLURS, EXACT, Epochs, Handling, Mark
from streamactors.engine.materializing.materializer import attach
from streamactors.engine.stage import GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.engine.supervision import failure_of
from streamactors.stages.bases.failing_later import FailsLater
from streamactors.stages.bases.inner import source_module
from streamactors.stages.checks import plain_function, positive
from streamactors.stages.substreams.reading import Reading


class FlatMap(GraphStage):
    """Base of the two flat maps: at most `breadth` inner sources run at a time."""

    traits = StageTraits(inner_sources="runs")

    def __init__(self, fn: Callable[[Any], Any], breadth: int) -> None:
        self.fn = plain_function(self.label, fn)
        self.breadth = positive(self.label, "breadth", breadth)


class FlatMapMerge(FlatMap):
    """The stage of `Source.flat_map_merge` and `Source.flatten_merge`."""

    name = "flat_map_merge"
    handling: Handling = BLURS

    def __init__(self, breadth: int, fn: Callable[[Any], Any]) -> None:
        super().__init__(fn, breadth)


class FlatMapConcat(FlatMap):
    """The stage of `Source.flat_map_concat` and `Source.flatten_concat`."""

    name = "flat_map_concat"
    handling: Handling = EXACT

    def __init__(self, fn: Callable[[Any], Any]) -> None:
        super().__init__(fn, 1)


@logic_of(FlatMap)
class _FlatMapLogic(FailsLater):
    def __init__(self, stage: FlatMap) -> None:
        super().__init__(stage)
        self._active: dict[Connection, int] = {}  # inner source -> its epoch
        self._epochs = Epochs()
        self._upstream_done = False
        self._reading = Reading(self)

    def on_pull(self, out: Connection) -> None:
        self._take_in()  # before the demand is used up, so that further sources open
        self._reading.downstream_asks()

    def _take_in(self) -> None:
        free = self.stage.breadth - len(self._active)
        if free and not self._upstream_done and self.fails_later is None:
            self.inlets[0].want(min(free, self.outlets[0].asked))

    def on_push(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._open(in_)
        else:
            self._reading.came(in_)

    def _open(self, in_: Connection) -> None:
        for element in in_.grab(self.stage.breadth - len(self._active)):
            try:
                module = source_module(self.name, self.stage.fn(element))
            except BaseException as error:  # noqa: BLE001  # the user's function
                failure = failure_of(self, error, element, self.stage.fn)
                if failure is not None:
                    self.fail_later(failure, in_)
                    return
                continue
            _, (inner,), _ = attach(self, module)
            self.inlets.append(inner)  # so that it is cancelled with the stage
            self._active[inner] = self._epochs.enter()
            self._reading.add(inner)
        self._take_in()

    def on_mark(self, in_: Connection, mark: Mark) -> None:
        if in_ is self.inlets[0]:
            self._pass(self._epochs.mark(mark))
        else:
            self.outlets[0].mark(mark)

    def _pass(self, marks: list[Mark]) -> None:
        for mark in marks:
            self.outlets[0].mark(mark)

    def on_complete(self, in_: Connection) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
        else:
            self.inlets.remove(in_)
            self._reading.remove(in_)
            self._pass(self._epochs.leave(self._active.pop(in_)))
        if self._active or not self._upstream_done:
            self._take_in()
        elif self.fails_later is not None:
            self.fail_stage(self.fails_later)
        else:
            self.complete_stage()

    def on_fail(self, in_: Connection, error: BaseException) -> None:
        if in_ is self.inlets[0]:
            self._upstream_done = True
            self.fail_later(error)
        else:
            self._reading.failed(in_, error)

    def snapshot_state(self) -> str:
        return f"{len(self._active)} of {self.stage.breadth} inner sources"
