"""The stage of a partitioned source: emits (partition, source of its records) for each partition that is assigned. How: `partitioned_logic.py`."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Needs
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.engine.stage_traits import StageTraits
from streamactors.kafka.sources.partitioned_logic import PartitionedSourceLogic
from streamactors.kafka.sources.read_plan import ReadPlan


class PartitionedSourceStage(GraphStage):
    """Emit (partition, source) for each assigned partition.

    Emits when: a partition is assigned and downstream has demand.   Completes when: the control is stopped, or a bounded read has
    reached all its ends.   Cancels when: downstream cancels; the sub-sources complete, too.   Fails when: the consumer fails.
    """

    shape = SOURCE

    def __init__(self, name: str, plan: ReadPlan) -> None:
        self.name = name
        self.plan = plan
        self.traits = StageTraits(
            emits_marks=True,
            sampled=True,
            inner_sources="emits",
            reads_marks=plan.commits_done,
            needs=Needs("Consumer.partitioned_source, which commits what is done,") if plan.commits_done else None,
        )

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = PartitionedSourceLogic(self.plan)
        logic.control.graph = attributes.graph or attributes.name or self.name
        return logic, logic.control
