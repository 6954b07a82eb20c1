"""HandIn: a sink that feeds a source of another run, which was started before: the base of pre-materialized sinks and flows."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.engine.attributes import Attributes
from streamactors.engine.blueprint.modules import Module, StageModule
from streamactors.engine.logic import Logic
from streamactors.engine.stage import NOT_USED, SINK, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.errors import BuildError
from streamactors.stages.bases.pull import ChunkReader, PullLogic
from streamactors.stages.sources.deferred import FutureSource
from streamactors.stages.sources.hand_over import HandOver


class HandIn(GraphStage):
    """Send the elements into a run that has started. It can run once, because there is one such run.

    Backpressures when: that run does.            Cancels when: that run cancels, or has ended.
    Marks: refused, because that run may lose elements.
    """

    shape = SINK
    name = "pre_materialized_sink"
    traits = StageTraits(no_marks="hands its elements to another run")

    def __init__(self) -> None:
        self._source: StreamFuture[Module] = StreamFuture("the stream into a pre-materialized part")
        self.entrance: Module = StageModule(FutureSource(self._source))
        """The source with which the other run begins. It materializes a future that fails when this run ends before its source is known."""
        self.begun: Future[Any] = StreamFuture()
        """That future; set when the other run has been started."""
        self._lock = threading.Lock()
        self._used = False

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        with self._lock:
            if self._used:
                raise BuildError("a pre-materialized part can run only once, and it has been started before")
            self._used = True
        reader: ChunkReader[Any] = ChunkReader(None, "pre_materialize")
        return _HandInLogic(reader, self), NOT_USED

    def hand_over(self, reader: ChunkReader[Any]) -> None:
        """Give the other run its source."""
        self._source.try_complete(StageModule(HandOver(reader)))


class _HandInLogic(PullLogic):
    passes_marks = False

    def __init__(self, reader: ChunkReader[Any], stage: HandIn) -> None:
        super().__init__(reader)
        self.stage = stage

    def on_start(self) -> None:
        super().on_start()
        self.stage.hand_over(self._reader)
        reader = self._reader
        self.stage.begun.add_done_callback(lambda begun: reader.cancel() if begun.exception() is not None else None)
