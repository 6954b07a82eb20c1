"""Producer: the sinks and flows that write to Kafka topics."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.dsl.with_context import FlowWithContext
from streamactors.engine.blueprint import Joined, StageModule, keep_right
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.client_producer import StreamProducer
from streamactors.kafka.committer import Committer
from streamactors.kafka.producer_record import Envelope, MultiResult, PassThroughResult, ProducerRecord, Result
from streamactors.kafka.producer_stage import ProducerStage
from streamactors.kafka.settings import CommitterSettings, ProducerSettings
from streamactors.stages.sinks import Ignore

Results = Result | MultiResult | PassThroughResult


class SharedProducer:
    """One connection for several sinks and flows: give it to them as `producer=`. Close it when they have ended.

    A context manager. Queue and thread are shared; a stream that fails leaves the others' records alone."""

    def __init__(self, settings: ProducerSettings) -> None:
        self.settings = _checked("Producer.shared", settings)
        self.client = StreamProducer(settings)

    def close(self) -> None:
        """Send what is queued, wait for it within close_timeout_ms, and disconnect."""
        self.client.close().result()

    def __enter__(self) -> SharedProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer:
    """Factories of sinks and flows over a Kafka producer."""

    @staticmethod
    def shared(settings: ProducerSettings) -> SharedProducer:
        """Return a producer that several sinks and flows may use."""
        return SharedProducer(settings)

    @staticmethod
    def plain_sink(
        settings: ProducerSettings, *, producer: SharedProducer | None = None
    ) -> Sink[ProducerRecord, StreamFuture[None]]:
        """Write each ProducerRecord. Materializes a future that is done when all are acknowledged; fails when one cannot be."""
        stage = _stage("Producer.plain_sink", settings, producer, envelopes=False, results=False)
        return Sink(Joined(StageModule(stage), StageModule(Ignore()), keep_right))

    @staticmethod
    def flexi_flow(
        settings: ProducerSettings, *, producer: SharedProducer | None = None
    ) -> Flow[Envelope, Results, NotUsed]:
        """Write the records of each envelope (`ProducerMessage.message`, `.multi`, `.pass_through`); emit a result for each, in order."""
        return Flow(StageModule(_stage("Producer.flexi_flow", settings, producer, envelopes=True, results=True)))

    @staticmethod
    def flow_with_context(
        settings: ProducerSettings, *, producer: SharedProducer | None = None
    ) -> FlowWithContext[Envelope, Any, Results, Any, NotUsed]:
        """As `flexi_flow`, for envelopes with a context beside them: the context comes out beside the result."""
        inner = _stage("Producer.flow_with_context", settings, producer, envelopes=True, results=True)
        pairs = Flow.map(carrying).via(Flow(StageModule(inner))).map(uncarried)
        return FlowWithContext.from_pairs(pairs)

    @staticmethod
    def committable_sink(
        settings: ProducerSettings,
        committer: CommitterSettings | None = None,
        *,
        producer: SharedProducer | None = None,
    ) -> Sink[Envelope, StreamFuture[None]]:
        """Write the records of each envelope, then commit its pass-through: a CommittableOffset, or several.

        An envelope without records is committed in its turn. Materializes a future that is done when all is committed."""
        stage = _stage("Producer.committable_sink", settings, producer, envelopes=True, results=True)
        commit = Committer.sink(committer, offset=lambda result: result.pass_through)
        return Sink(Joined(StageModule(stage), commit.module, keep_right))

    @staticmethod
    def committable_sink_with_offset_context(
        settings: ProducerSettings,
        committer: CommitterSettings | None = None,
        *,
        producer: SharedProducer | None = None,
    ) -> Sink[tuple[Envelope, Any], StreamFuture[None]]:
        """As `committable_sink`, for pairs of an envelope and its offset (or several) as context."""
        sink = Producer.committable_sink(settings, committer, producer=producer)
        paired: Flow[tuple[Envelope, Any], Envelope, NotUsed] = Flow.map(_with_offset)
        return Sink(Joined(paired.module, sink.module, keep_right))


def _with_offset(pair: tuple[Envelope, Any]) -> Envelope:
    envelope, offset = pair
    return envelope._replace(pass_through=offset)


def carrying(pair: tuple[Envelope, Any]) -> Envelope:
    """Return the envelope with its context beside the pass-through."""
    envelope, context = pair
    return envelope._replace(pass_through=(envelope.pass_through, context))


def uncarried(result: Results) -> tuple[Results, Any]:
    """Undo `carrying`: return the result and the context."""
    inner, context = result.pass_through
    if isinstance(result, PassThroughResult):
        return PassThroughResult(inner), context
    message: Any = result.message._replace(pass_through=inner)
    if isinstance(result, MultiResult):
        return result._replace(message=message), context
    return Result((message, result[1])), context


def _checked(name: str, settings: Any) -> ProducerSettings:
    if not isinstance(settings, ProducerSettings):
        raise BuildError(f"{name} expects ProducerSettings, got {type(settings).__name__}")
    return settings


def _stage(
    name: str, settings: ProducerSettings, producer: SharedProducer | None, *, envelopes: bool, results: bool
) -> ProducerStage:
    _checked(name, settings)
    if settings.transactional_id is not None:
        raise BuildError(f"{name}: settings with a transactional_id are for Transactional.sink and .flow")
    if producer is not None and not isinstance(producer, SharedProducer):
        raise BuildError(f"{name}: producer must come from Producer.shared(…), got {type(producer).__name__}")
    client = None if producer is None else producer.client
    return ProducerStage(name, settings, client, envelopes=envelopes, results=results)
