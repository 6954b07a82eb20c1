"""Sinks that consume whole chunks: ignore, count, fold, reduce, to_list, foreach and friends."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks import EXACT
from streamactors.engine.sink import SinkLogic
from streamactors.engine.stage import SINK, GraphStage


class SinkStage(GraphStage):
    """Base of sinks that materialize the future of their logic."""

    shape = SINK
    handling = EXACT

    def logic(self) -> SinkLogic:
        """Return a fresh logic."""
        raise NotImplementedError  # pragma: no cover

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = self.logic()
        return logic, logic.future


class Count(SinkStage):
    """Count the elements; materializes a future of the number."""

    def logic(self) -> SinkLogic:
        return _CountLogic()


class _CountLogic(SinkLogic):
    def __init__(self) -> None:
        super().__init__()
        self._n = 0

    def on_chunk(self, chunk: list[Any]) -> None:
        self._n += len(chunk)

    def result(self) -> int:
        return self._n
