"""MaterializedValue: a source that emits the materialized value of its own graph."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.island.connection import Connection
from streamactors.engine.logic import Logic, SourceLogic
from streamactors.engine.stage import SOURCE, GraphStage


class MaterializedValue(GraphStage):
    """Emit one element: the value given to the function that this stage materializes. GraphDSL calls it.

    Emits when: there is demand.                  Completes when: it has emitted.
    """

    shape = SOURCE

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = _MaterializedValueLogic()
        return logic, logic.receive


class _MaterializedValueLogic(SourceLogic):
    value: Any = None

    def receive(self, value: Any) -> None:
        """Called while the run is built, before any stage starts."""
        self.value = value

    def on_pull(self, out: Connection) -> None:
        out.push([self.value])
        self.complete_stage()
