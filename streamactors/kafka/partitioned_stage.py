"""The stage of a partitioned source: emits (partition, source of its records) for each partition that is assigned. How: `partitioned_logic.py`."""

from __future__ import annotations

from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Needs
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.kafka.committable import Convert
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.manual_offsets import OffsetsOnAssign, OnRevoke
from streamactors.kafka.partitioned_logic import PartitionedSourceLogic
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import Subscription


class PartitionedSourceStage(GraphStage):
    """Emit (partition, source) for each assigned partition.

    Emits when: a partition is assigned and downstream has demand.   Completes when: the control is stopped, or a bounded read has
    reached all its ends.   Cancels when: downstream cancels; the sub-sources complete, too.   Fails when: the consumer fails.
    """

    shape = SOURCE
    name = "Consumer.partitioned_source"
    emits_marks = True
    hands_out = True

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        commits: Commits,
        until_end: bool,
        convert: Convert | None = None,
        offsets_on_assign: OffsetsOnAssign | None = None,
        on_revoke: OnRevoke | None = None,
    ) -> None:
        self.settings = settings
        self.subscription = subscription
        self.commits = commits
        self.until_end = until_end
        self.convert = convert
        self.offsets_on_assign = offsets_on_assign
        self.on_revoke = on_revoke
        self.reads_marks = commits is Commits.MARKS
        self.needs = Needs("Consumer.partitioned_source, which commits what is done,") if self.reads_marks else None

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = PartitionedSourceLogic(self)
        return logic, logic.control
