"""The stage that ends in Spark, as a blueprint; what runs is in sink_logic.py."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Needs
from streamactors.engine.stage import SINK, GraphStage
from streamactors.spark.sink_logic import SinkSettings, SparkSinkLogic


class SparkSinkStage(GraphStage):
    """Hand rows to Spark's foreachBatch, batch by batch.

    Backpressures when: the next batch is gathered and Spark is still busy with the one before.
    Completes when: upstream has completed and Spark's checkpoint has everything.   Cancels when: the query fails or is stopped.
    Marks: done when Spark's checkpoint has the batch that ends there."""

    shape = SINK
    reads_marks = True

    def __init__(self, name: str, settings: SinkSettings) -> None:
        self.name = name
        self.settings = settings
        self.needs = Needs(name, exact=True, no_memory=True, replays=True)
        self.owns_positions = f"Spark's checkpoint {settings.checkpoint}"

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = SparkSinkLogic(self.settings)
        return logic, logic.query
