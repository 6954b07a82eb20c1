"""The stage of a Kafka source: emits the records of a subscription. How: `source_logic.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from streamactors.engine.attributes import Attributes
from streamactors.engine.logic import Logic
from streamactors.engine.marks.marks import Needs
from streamactors.engine.stage_traits import StageTraits
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.sources.lane import LaneStage
from streamactors.kafka.sources.read_plan import ReadPlan
from streamactors.kafka.sources.source_logic import ConsumerSourceLogic
from streamactors.kafka.subscriptions import AutoSubscription, Subscription


class ConsumerSourceStage(LaneStage):
    """Emit the records of a subscription.

    Emits when: records are there and downstream has demand; partitions take turns, chunk by chunk.
    Completes when: the control is stopped, or a bounded read has reached its end.   Fails when: the consumer fails.
    """

    def __init__(self, name: str, plan: ReadPlan) -> None:
        self.name = name
        self.plan = plan
        self.keeps_changelog = plan.keeps_changelog
        self.traits = StageTraits(
            emits_marks=True,
            sampled=True,
            endless=not plan.until_end,
            reads_marks=plan.commits_done,
            needs=Needs("Consumer.source, which commits what is done,") if plan.commits_done else None,
            owns_positions=_owner(plan),
        )

    @property
    def until_end(self) -> bool:
        """True for a bounded read."""
        return self.plan.until_end

    @property
    def takes_steps(self) -> bool:
        """True if the steps downstream of the source work on records; then they may run inside."""
        return self.plan.whole is None

    def reading_between(self, name: str, settings: ConsumerSettings, subscription: Subscription) -> ConsumerSourceStage:
        """Return the stage that reads a topic in the middle of this source's application, which creates it; it commits what is done."""
        plan = replace(
            self.plan,
            settings=settings,
            subscription=subscription,
            creates=frozenset(subscription.topics) if isinstance(subscription, AutoSubscription) else frozenset(),
            commits=Commits.MARKS,
            until_end=False,
            convert=None,
            whole=None,
            application=self.plan.application or self.plan.settings.group_id,
        )
        return ConsumerSourceStage(name, plan)

    def repartitioned(self, key_of: Callable[[Any], Any], node: str, graces: Mapping[str, int], bounded: bool) -> Any:
        """Return the flow that re-keys the rows of this source, through a topic; `key_by` puts it before `node`. `graces`: of the windows after it, in ms."""
        return self.plan.services.repartitioned(self, key_of, node, graces, bounded)

    def create(self, attributes: Attributes) -> tuple[Logic, Any]:
        logic = ConsumerSourceLogic(self.plan, self.loop, attributes.max_chunk)
        logic.control.graph = attributes.graph or attributes.name or self.name
        return logic, logic.control


def _owner(plan: ReadPlan) -> str:
    """Return the name of the owner of the positions; empty where a sink may own them."""
    match plan.commits:
        case Commits.OFFSETS:
            return "the offsets in hand"
        case Commits.BEFORE:
            return "the commit before delivery (at most once)"
        case Commits.TRANSACTION:
            return plan.services.transaction_owner
    return ""
