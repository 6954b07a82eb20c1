"""The stage of a Kafka source: emits the records of a subscription. How: `source_logic.py`."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.fused_loop import FusedLoop, Op
from streamactors.engine.logic import Logic
from streamactors.engine.marks import Handling, Needs
from streamactors.engine.stage import SOURCE, GraphStage
from streamactors.kafka.committable import Convert
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.source_logic import ConsumerSourceLogic
from streamactors.kafka.subscriptions import Subscription
from streamactors.kafka.transaction import THE_TRANSACTION

_OWNERS = {
    Commits.OFFSETS: "the offsets in hand",
    Commits.BEFORE: "the commit before delivery (at most once)",
    Commits.TRANSACTION: THE_TRANSACTION,
}
"""Who decides where such a source begins after a restart; plain sources and those that commit what is done follow others."""


class ConsumerSourceStage(GraphStage):
    """Emit the records of a subscription.

    Emits when: records are there and downstream has demand; partitions take turns, chunk by chunk.
    Completes when: the control is stopped, or a bounded read has reached its end.   Fails when: the consumer fails.
    """

    shape = SOURCE
    name = "Consumer.source"
    emits_marks = True

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        commits: Commits,
        until_end: bool,
        convert: Convert | None = None,
    ) -> None:
        self.settings = settings
        self.subscription = subscription
        self.commits = commits
        self.until_end = until_end
        self.convert = convert
        self.loop: FusedLoop | None = None
        self.reads_marks = commits in (Commits.MARKS, Commits.TRANSACTION)
        self.needs = Needs("Consumer.source, which commits what is done,") if self.reads_marks else None
        self.owns_positions = _OWNERS.get(commits, "")
        self.keeps_changelog = commits in (Commits.MARKS, Commits.TRANSACTION, Commits.OFFSETS)
        self.application = settings.group_id or ""

    def repartitioned(self, key_of: Callable[[Any], Any], node: str, bounded: bool) -> Any:
        """The flow that brings rows of this source under new keys, through a topic; what `key_by` puts before `node`."""
        from streamactors.kafka.repartition import repartitioned

        return repartitioned(self, key_of, node, bounded)

    def with_steps(self, ops: tuple[Op, ...], handling: Handling, name: str | None) -> ConsumerSourceStage:
        """Return this source, known by a name, with the maps, filters and scans behind it inside."""
        fused = copy(self)
        fused.name = "+".join([name or self.label, *(op.attributes.name or op.label for op in ops)])
        fused.loop, fused.steps = FusedLoop(ops), handling
        return fused

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = ConsumerSourceLogic(self, attributes.max_chunk)
        return logic, logic.control
