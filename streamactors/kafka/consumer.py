"""Consumer: the sources over Kafka topics."""

from __future__ import annotations

from streamactors.dsl.source import Source
from streamactors.engine.blueprint import StageModule
from streamactors.errors import BuildError
from streamactors.kafka.control import Control
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.source_stage import ConsumerSourceStage
from streamactors.kafka.subscriptions import AutoSubscription, Subscription


class Consumer:
    """Factories of sources; each materializes a `Control`."""

    @staticmethod
    def source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records, and commit an offset when its record is done at every sink of the run: at least once, whatever is between.

        `until="end"`: a bounded read that completes at the ends the partitions had when they were assigned."""
        _needs_group("Consumer.source", settings)
        return _source("Consumer.source", settings, subscription, until, commits=True)

    @staticmethod
    def plain_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records and commit nothing. `until="end"` as in `source`."""
        if isinstance(subscription, AutoSubscription):
            _needs_group("Consumer.plain_source with topics", settings)
        return _source("Consumer.plain_source", settings, subscription, until, commits=False)


def _needs_group(name: str, settings: ConsumerSettings) -> None:
    if not settings.group_id:
        raise BuildError(f"{name} needs a group_id; give ConsumerSettings(…, group_id='…'), or assign partitions")


def _source(
    name: str, settings: ConsumerSettings, subscription: Subscription, until: str | None, *, commits: bool
) -> Source[ConsumerRecord, Control]:
    if not isinstance(settings, ConsumerSettings):
        raise BuildError(f"{name} expects ConsumerSettings, got {type(settings).__name__}")
    if not isinstance(subscription, Subscription):
        raise BuildError(f"{name} expects a subscription (Subscriptions.topics(…)), got {type(subscription).__name__}")
    if until not in (None, "end"):
        raise BuildError(f"{name}: until must be None or 'end', got {until!r}")
    stage = ConsumerSourceStage(settings, subscription, commits=commits, until_end=until == "end")
    stage.name = name
    return Source(StageModule(stage))
