"""The sink that a thread or a coroutine outside reads: of to_queue, run_iter and run_async_iter."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import EXACT
from streamactors.engine.stage import SINK, GraphStage
from streamactors.stages.bases.pull import ChunkReader, PullLogic
from streamactors.stages.checks import positive


class PullSink(GraphStage):
    """Materializes a ChunkReader."""

    shape = SINK
    handling = EXACT

    def __init__(self, name: str, buffer: int | None) -> None:
        self.name = name
        self._buffer = None if buffer is None else positive(name, "buffer", buffer)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        reader: ChunkReader[Any] = ChunkReader(self._buffer, self.name)
        return PullLogic(reader), reader
