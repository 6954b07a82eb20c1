"""Producer: the sinks and flows that write to Kafka topics."""

from __future__ import annotations

from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.context.with_context import FlowWithContext
from streamactors.dsl.flow import Flow
from streamactors.dsl.sink import Sink
from streamactors.engine.blueprint.modules import Joined, Module, StageModule, keep_right
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.client.traced_producer import producer_of
from streamactors.kafka.committer import Committer
from streamactors.kafka.dead_letters import letter_of
from streamactors.kafka.producer_record import (
    Envelope,
    Message,
    MultiMessage,
    MultiResult,
    PassThroughMessage,
    PassThroughResult,
    ProducerRecord,
    Result,
)
from streamactors.kafka.serdes.serdes import writing_function
from streamactors.kafka.serdes.topic_types import TopicTypes, told
from streamactors.kafka.settings import CommitterSettings, ProducerSettings
from streamactors.kafka.writing.producer_stage import ProducerStage
from streamactors.stages.errors.failed_element import FailedElement
from streamactors.stages.sinks.values import Ignore

Results = Result | MultiResult | PassThroughResult


class SharedProducer:
    """One connection for several sinks and flows: pass it to them as `producer=`, and close it after they have ended.

    A context manager. Its users share the queue and the thread; the failure of one stream drops no record of another."""

    def __init__(self, settings: ProducerSettings) -> None:
        self.settings = _checked("Producer.shared", settings)
        self.client = producer_of(settings)

    def close(self) -> None:
        """Send the queued records within close_timeout_ms, and disconnect."""
        self.client.close().result()

    def __enter__(self) -> SharedProducer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Producer:
    """Factories of sinks and flows over a Kafka producer.

    `key`, `value`: how the keys and values of the records become bytes: a Serde, its name (bytes, string, integer, json, msgpack), a
    dataclass, msgspec struct or pydantic model, or a function; None: they are bytes or text. A record that cannot be serialised fails the
    stream with RecordError; supervision: resume and restart drop it."""

    @staticmethod
    def shared(settings: ProducerSettings) -> SharedProducer:
        """Return a producer that several sinks and flows may use."""
        return SharedProducer(settings)

    @staticmethod
    def plain_sink(
        settings: ProducerSettings, *, key: Any = None, value: Any = None, producer: SharedProducer | None = None
    ) -> Sink[ProducerRecord, StreamFuture[None]]:
        """Write each ProducerRecord. Materializes a future that is done when all are acknowledged; fails when one cannot be."""
        stage = _stage("Producer.plain_sink", settings, producer, envelopes=False, results=False)
        sink = Joined(StageModule(stage), StageModule(Ignore()), keep_right)
        return Sink(serialised("Producer.plain_sink", sink, key, value))

    @staticmethod
    def dead_letter_sink(
        settings: ProducerSettings, topic: str, *, key: Any = None, value: Any = None
    ) -> Sink[FailedElement, StreamFuture[None]]:
        """Write the records that `Flow.retry` and `validate` give up to a topic, with headers for the origin, the error and the number of attempts.

        The elements of the flow are records of a consumer (ConsumerRecord, CommittableMessage, Record). `key` and `value`: how a Record,
        which is deserialised, becomes bytes again. `streamactors dead-letters` lists, shows and replays such topics."""
        name = "Producer.dead_letter_sink"
        letters: Flow[FailedElement, ProducerRecord, NotUsed] = Flow.map(
            told(
                lambda failed: letter_of(name, failed).to_record(topic),
                TopicTypes("send", topic, key, value, "dead letters"),
            )
        )
        return letters.to_mat(Producer.plain_sink(settings, key=key, value=value), keep_right)

    @staticmethod
    def flexi_flow(
        settings: ProducerSettings, *, key: Any = None, value: Any = None, producer: SharedProducer | None = None
    ) -> Flow[Envelope, Results, NotUsed]:
        """Write the records of each envelope (`ProducerMessage.message`, `.multi`, `.pass_through`); emit a result for each, in order."""
        name = "Producer.flexi_flow"
        stage = StageModule(_stage(name, settings, producer, envelopes=True, results=True))
        return Flow(serialised(name, stage, key, value))

    @staticmethod
    def flow_with_context(
        settings: ProducerSettings, *, key: Any = None, value: Any = None, producer: SharedProducer | None = None
    ) -> FlowWithContext[Envelope, Any, Results, Any, NotUsed]:
        """As `flexi_flow`, for envelopes with a context beside them: the context comes out beside the result."""
        name = "Producer.flow_with_context"
        inner = StageModule(_stage(name, settings, producer, envelopes=True, results=True))
        pairs = Flow.map(carrying).via(Flow(serialised(name, inner, key, value))).map(uncarried)
        return FlowWithContext.from_pairs(pairs)

    @staticmethod
    def committable_sink(
        settings: ProducerSettings,
        committer: CommitterSettings | None = None,
        *,
        key: Any = None,
        value: Any = None,
        producer: SharedProducer | None = None,
    ) -> Sink[Envelope, StreamFuture[None]]:
        """Write the records of each envelope, then commit its pass-through: a CommittableOffset, or several.

        The pass-through of an envelope without records is committed in order, too. Materializes a future that is done after the last commit."""
        stage = _stage("Producer.committable_sink", settings, producer, envelopes=True, results=True)
        commit = Committer.sink(committer, offset=lambda result: result.pass_through)
        sink = Joined(StageModule(stage), commit.module, keep_right)
        return Sink(serialised("Producer.committable_sink", sink, key, value))

    @staticmethod
    def committable_sink_with_offset_context(
        settings: ProducerSettings,
        committer: CommitterSettings | None = None,
        *,
        key: Any = None,
        value: Any = None,
        producer: SharedProducer | None = None,
    ) -> Sink[tuple[Envelope, Any], StreamFuture[None]]:
        """As `committable_sink`, for pairs of an envelope and its offset (or several) as context."""
        sink = Producer.committable_sink(settings, committer, key=key, value=value, producer=producer)
        paired: Flow[tuple[Envelope, Any], Envelope, NotUsed] = Flow.map(_with_offset)
        return Sink(Joined(paired.module, sink.module, keep_right))


def serialised(name: str, writer: Module, key: Any, value: Any) -> Module:
    """Return a sink or flow of records or envelopes, with the serialisation of their keys and values before it."""
    write = writing_function(name, key, value)
    if write is None:
        return writer
    record = write  # not None

    def element(given: Any) -> Any:
        kind = type(given)
        if kind is Message:
            return given._replace(record=record(given.record))
        if kind is MultiMessage:
            return given._replace(records=tuple(map(record, given.records)))
        return given if kind is PassThroughMessage else record(given)

    flow: Flow[Any, Any, NotUsed] = Flow.map(told(element, TopicTypes("send", None, key, value))).named(
        f"{name} serdes"
    )
    return Joined(flow.module, writer, keep_right)


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
    properties = settings.client_properties()
    if str(properties.get("request.required.acks", properties["acks"])).strip() == "0":
        raise BuildError(
            f"{name}: the property acks=0 is refused: a record is done when the broker has acknowledged it"
        )
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
