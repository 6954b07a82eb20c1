"""Transactional: read, process and write exactly once: records and the positions they stem from are committed together."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.context.with_context import FlowWithContext, SourceWithContext
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import Joined, StageModule, keep_right
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.consumer import consumer_source, needs_group
from streamactors.kafka.controls.control import Control
from streamactors.kafka.producer import Results, carrying, serialised, uncarried
from streamactors.kafka.producer_record import Envelope, Message, ProducerRecord
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import PartitionOffset, Subscription
from streamactors.kafka.transactions.transactional_stage import TransactionalStage
from streamactors.stages.sinks.values import Ignore


class Transactional:
    """Factories. All transactional sinks and flows of a run share one transaction and must have the same settings.

    `key` and `value`: as in Producer. A transactional id has one producer at a time: a new one fences the old, whose stream fails."""

    @staticmethod
    def source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit committed records; their offsets are committed by the transaction of the sinks they reach."""
        name = "Transactional.source"
        needs_group(name, settings)
        if isinstance(settings, ConsumerSettings):
            if settings.client_properties().get("isolation.level", "read_committed") != "read_committed":
                raise BuildError(
                    f"{name}: the property isolation.level must be read_committed; it reads no open transaction"
                )
            settings = settings.with_property("isolation.level", "read_committed")
        return consumer_source(name, settings, subscription, until, commits=Commits.TRANSACTION)

    @staticmethod
    def source_with_offset_context(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> SourceWithContext[ConsumerRecord, PartitionOffset, Control]:
        """As `source`, with each record's place as its context, whatever later stages make of the record."""
        source = Transactional.source(settings, subscription, until=until)
        pairs = source.map(lambda r: (r, PartitionOffset(r.topic, r.partition, r.offset)))
        return SourceWithContext(pairs.named("Transactional.source_with_offset_context").module)

    @staticmethod
    def sink(
        settings: ProducerSettings, *, key: Any = None, value: Any = None
    ) -> Sink[ProducerRecord, StreamFuture[None]]:
        """Write each ProducerRecord; commit every `commit_interval_ms`. Materializes a future that is done with the last commit."""
        stage = _stage("Transactional.sink", settings, envelopes=False, results=False)
        sink = Joined(StageModule(stage), StageModule(Ignore()), keep_right)
        return Sink(serialised("Transactional.sink", sink, key, value))

    @staticmethod
    def flow(settings: ProducerSettings, *, key: Any = None, value: Any = None) -> Flow[Envelope, Results, NotUsed]:
        """Write the records of each envelope and emit a result for each, in order, when they are acknowledged."""
        stage = StageModule(_stage("Transactional.flow", settings, envelopes=True, results=True))
        return Flow(serialised("Transactional.flow", stage, key, value))

    @staticmethod
    def sink_with_offset_context(
        settings: ProducerSettings, *, key: Any = None, value: Any = None
    ) -> Sink[tuple[Envelope, Any], StreamFuture[None]]:
        """As `sink`, for pairs of an envelope (or a ProducerRecord) and its context. The transaction commits the positions of all that
        was read, whatever the contexts say: what was filtered on the way is committed, too."""
        name = "Transactional.sink_with_offset_context"
        stage = _stage(name, settings, envelopes=True, results=False)
        sink = serialised(name, Joined(StageModule(stage), StageModule(Ignore()), keep_right), key, value)
        unpaired: Flow[tuple[Envelope, Any], Envelope, NotUsed] = Flow.map(_envelope)
        return Sink(Joined(unpaired.module, sink, keep_right))

    @staticmethod
    def flow_with_offset_context(
        settings: ProducerSettings, *, key: Any = None, value: Any = None
    ) -> FlowWithContext[Envelope, Any, Results, Any, NotUsed]:
        """As `flow`, for envelopes with a context beside them: the context comes out beside the result."""
        name = "Transactional.flow_with_offset_context"
        stage = serialised(name, StageModule(_stage(name, settings, envelopes=True, results=True)), key, value)
        return FlowWithContext.from_pairs(Flow.map(carrying).via(Flow(stage)).map(uncarried))


def _envelope(pair: tuple[Any, Any]) -> Envelope:
    element = pair[0]
    return Message(element) if type(element) is ProducerRecord else element


def _stage(name: str, settings: Any, *, envelopes: bool, results: bool) -> TransactionalStage:
    if not isinstance(settings, ProducerSettings):
        raise BuildError(f"{name} expects ProducerSettings, got {type(settings).__name__}")
    if not settings.transactional_id:
        raise BuildError(
            f"{name} needs a transactional_id: settings.with_transactional_id('…'), the same after a restart"
        )
    return TransactionalStage(name, settings, envelopes=envelopes, results=results)
