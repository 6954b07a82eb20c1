"""Transactional: read, process and write exactly once: records and the positions they stem from are committed together."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.blueprint import Joined, StageModule, keep_right
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.consumer import consumer_source, needs_group
from streamactors.kafka.consumer_actor import Commits
from streamactors.kafka.control import Control
from streamactors.kafka.producer import Results
from streamactors.kafka.producer_record import Envelope, ProducerRecord
from streamactors.kafka.record import ConsumerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import Subscription
from streamactors.kafka.transactional_stage import TransactionalStage
from streamactors.stages.sinks import Ignore


class Transactional:
    """Factories. All transactional sinks and flows of a run share one transaction and must have the same settings.

    A transactional id has one producer at a time: a new one fences the old, whose stream fails."""

    @staticmethod
    def source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit committed records; their offsets are committed by the transaction of the sinks they reach."""
        name = "Transactional.source"
        needs_group(name, settings)
        if isinstance(settings, ConsumerSettings):
            settings = settings.with_property("isolation.level", "read_committed")
        return consumer_source(name, settings, subscription, until, commits=Commits.TRANSACTION)

    @staticmethod
    def sink(settings: ProducerSettings) -> Sink[ProducerRecord, StreamFuture[None]]:
        """Write each ProducerRecord; commit every `commit_interval_ms`. Materializes a future that is done with the last commit."""
        stage = _stage("Transactional.sink", settings, envelopes=False, results=False)
        return Sink(Joined(StageModule(stage), StageModule(Ignore()), keep_right))

    @staticmethod
    def flow(settings: ProducerSettings) -> Flow[Envelope, Results, NotUsed]:
        """Write the records of each envelope and emit a result for each, in order, when they are acknowledged."""
        return Flow(StageModule(_stage("Transactional.flow", settings, envelopes=True, results=True)))


def _stage(name: str, settings: Any, *, envelopes: bool, results: bool) -> TransactionalStage:
    if not isinstance(settings, ProducerSettings):
        raise BuildError(f"{name} expects ProducerSettings, got {type(settings).__name__}")
    if not settings.transactional_id:
        raise BuildError(
            f"{name} needs a transactional_id: settings.with_transactional_id('…'), the same after a restart"
        )
    return TransactionalStage(name, settings, envelopes=envelopes, results=results)
