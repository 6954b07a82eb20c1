"""Consumer: the sources over Kafka topics. Over 400 lines: each source once, with its contract."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal

from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.committable import (
    CommittableMessage,
    CommittableOffset,
    Convert,
    Origin,
    committable,
    committable_with_metadata,
)
from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.record import ConsumerRecord, KeptRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, Subscriptions, TopicPartition
from streamactors.stages.checks import function, plain_function

if TYPE_CHECKING:
    from streamactors.dsl.context.with_context import SourceWithContext
    from streamactors.durations import Duration
    from streamactors.kafka.reading.delays import DelayedTopics
    from streamactors.kafka.sources.consumer_link import ConsumerLink
    from streamactors.kafka.sources.manual_offsets import OffsetsOnAssign, OnRevoke
    from streamactors.kafka.sources.read_plan import ReadPlan
    from streamactors.kafka.sources.share_group.share_settings import SharedSourceSettings
    from streamactors.kafka.sources.share_group.shared_record import SharedRecord
    from streamactors.kafka.sources.shared.shared_consumer import SharedConsumer
    from streamactors.kafka.state.topics import KafkaTopics
    from streamactors.state import State
    from streamactors.windows.record import Record


class Consumer:
    """Factories of sources; each materializes a `Control`.

    `until="end"`: a bounded read that completes at the ends the partitions had when they were assigned."""

    @staticmethod
    def source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records, and commit an offset when its record is done at every sink of the run: at least once, through any stages."""
        needs_group("Consumer.source", settings)
        return consumer_source("Consumer.source", settings, subscription, until, commits=Commits.MARKS)

    @staticmethod
    def records(
        settings: ConsumerSettings,
        subscription: Subscription,
        *,
        key: Any = "bytes",
        value: Any = "bytes",
        timestamp: Callable[[Record], int] | None = None,
        dead_letters: Any = None,
        errors: Literal["fail", "emit"] = "fail",
        until: str | None = None,
    ) -> Source[Record, Control]:
        """As `source`, with deserialised keys and values: Record(key, value, timestamp). `.context` holds the topic, partition, offset and
        headers. Windows take these records. Of assigned partitions, settings without a group are enough: then nothing is committed.

        `key`, `value`: a Serde, its name (bytes, string, integer, json, msgpack), a dataclass, msgspec struct or pydantic model (the bytes are
        JSON), or a function from bytes. `timestamp`: a function from the Record to ms
        since 1970; default: the record's own timestamp. `dead_letters`: a topic for records that cannot be read. Their offsets are committed
        when they are stored there. Without it the first such record fails the stream, or, with `errors="emit"`, becomes an `Err` element."""
        from streamactors.kafka.record_source import records

        name = "Consumer.records"
        _needs_group_for_topics(name, settings, subscription)
        commits = Commits.MARKS if getattr(settings, "group_id", None) else Commits.NOBODY
        return records(
            name,
            consumer_source(name, settings, subscription, until, commits=commits),
            settings,
            key=key,
            value=value,
            timestamp=timestamp,
            dead_letters=dead_letters,
            errors=errors,
        )

    @staticmethod
    def topics(
        settings: ConsumerSettings,
        *,
        semantics: Literal["strict", "kafka"] = "strict",
        max_task_idle: Duration | None = 0,
        changelog: bool = True,
        producer: ProducerSettings | None = None,
        state: State | None = None,
        until: str | None = None,
    ) -> KafkaTopics:
        """Return the topics of one group, from which a topology of streams and tables is built (docs/joins.md, docs/tables.md).

        `stream`, `table` and `global_table` begin it; `source(result)` or `graph()` run it. One task for each partition number
        processes the rows of all topics in the order of their timestamps; `max_task_idle` (seconds, a timedelta or a string): how much longer it waits for a
        topic whose end the broker has reported (None: no wait at all). Topics that are joined must have equal numbers of
        partitions; this is checked at the start. A stream whose key has changed passes through a repartition topic
        "<group>-<name>-repartition". `changelog`: keep the state in changelog topics. `semantics`: that of all steps that are
        not given one. `producer`: writes repartition topics and what `to` writes; with a transactional id of yours it shares
        the transaction of the run's other sinks. `state`: where the state is kept, `State.in_memory()` or `State.on_disk(path)`
        (docs/state.md); default: as the settings say. `until="end"`: the run ends when every row that the topics had at the start, and
        what it gave to repartition topics, is processed and committed."""
        from streamactors.kafka.state.topics import KafkaTopics

        name = "Consumer.topics"
        _checked_settings(name, settings)
        needs_group(name, settings)
        if state is not None:
            settings = settings.with_state(state)

        if until not in (None, "end"):
            raise BuildError(f"{name}: until must be None or 'end', got {until!r}")

        def read(
            settings: ConsumerSettings, topics: list[str], created: list[str], to_the_end: bool
        ) -> Source[ConsumerRecord, Control]:
            of, end = Subscriptions.topics(*topics), "end" if to_the_end else None
            return consumer_source(name, settings, of, end, commits=Commits.MARKS, creates=frozenset(created))

        return KafkaTopics(settings, semantics, max_task_idle, changelog, producer, read, bounded=until == "end")

    @staticmethod
    def plain_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records and commit nothing."""
        name = "Consumer.plain_source"
        _needs_group_for_topics(name, settings, subscription)
        return consumer_source(name, settings, subscription, until, commits=Commits.NOBODY)

    @staticmethod
    def arrow_batches(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None, headers: bool = False
    ) -> Source[Any, Control]:
        """Emit records as Arrow record batches, each of up to 2,048 records of one partition; no object is made per record.

        The columns have the names of Spark's own Kafka source: key, value (binary), topic, partition, offset, timestamp (us, UTC),
        timestampType, and with `headers` headers. The offsets of a batch are committed when it is done at every sink of the run, as with
        `source`. Needs pyarrow."""
        name = "Consumer.arrow_batches"
        needs_group(name, settings)
        try:
            from streamactors.kafka.reading.record_batches import record_batch
        except ImportError:
            raise BuildError(f"{name} needs pyarrow; pip install 'streamactors[spark]', or pyarrow alone") from None
        plan = _plan(name, settings, subscription, until, Commits.MARKS, None)
        return _whole(name, replace(plan, whole=partial(record_batch, headers=headers)))

    @staticmethod
    def committable_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[CommittableMessage, Control]:
        """Emit records with their offsets in hand (`.record`, `.offset`), to be committed by `offset.commit()` or a Committer.

        With a Committer an offset commits its own record only. Records that are filtered or grouped on the way are done when the mark
        after them reaches the Committer, so no commit passes a record that is still being processed. If no mark can pass a stage on the
        way, or without a Committer, the commit of an offset commits every offset before it."""
        needs_group("Consumer.committable_source", settings)
        name = "Consumer.committable_source"
        return consumer_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=committable)

    @staticmethod
    def commit_with_metadata_source(
        settings: ConsumerSettings,
        subscription: Subscription,
        metadata_from_record: Callable[[ConsumerRecord], str],
        *,
        until: str | None = None,
    ) -> Source[CommittableMessage, Control]:
        """As `committable_source`; a commit also stores what `metadata_from_record` returns for the last record before the offset.

        The text is kept by the group with the offset (`MetadataClient.committed_metadata`); the broker takes up to 4,096 bytes
        (its `offset.metadata.max.bytes`). The function is called once for each record, on the source's island."""
        name = "Consumer.commit_with_metadata_source"
        needs_group(name, settings)
        convert = committable_with_metadata(plain_function(f"{name}: metadata_from_record", metadata_from_record))
        return consumer_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=convert)

    @staticmethod
    def source_with_offset_context(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> SourceWithContext[ConsumerRecord, CommittableOffset, Control]:
        """Emit records with their offsets as context, for `Committer.sink_with_offset_context`."""
        from streamactors.dsl.context.with_context import SourceWithContext

        name = "Consumer.source_with_offset_context"
        needs_group(name, settings)
        source = consumer_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=_pairs)
        return SourceWithContext(source.module)

    @staticmethod
    def partitioned_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """Emit (partition, source of its records) for each assigned partition; commit as `Consumer.source` does.

        Use `flat_map_merge(breadth, lambda pair: pair[1]…)` with a breadth of at least the number of partitions, or run each source apart,
        for instance in `map_async`. In a run of its own an offset is committed when its record is done at every sink of that run, or in
        the transaction of that run's Transactional.sink (a transactional id for each partition). A source completes when its partition is
        revoked. After a cancel the partition is emitted again, from the first record that was not taken."""
        name = "Consumer.partitioned_source"
        needs_group(name, settings)
        return partitioned_source(name, settings, subscription, until, commits=Commits.MARKS)

    @staticmethod
    def plain_partitioned_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """As `partitioned_source`, without commits."""
        name = "Consumer.plain_partitioned_source"
        _needs_group_for_topics(name, settings, subscription)
        return partitioned_source(name, settings, subscription, until, commits=Commits.NOBODY)

    @staticmethod
    def committable_partitioned_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[tuple[TopicPartition, Source[CommittableMessage, NotUsed]], Control]:
        """As `partitioned_source`, with offsets in hand, as `committable_source`."""
        name = "Consumer.committable_partitioned_source"
        needs_group(name, settings)
        return partitioned_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=committable)

    @staticmethod
    def commit_with_metadata_partitioned_source(
        settings: ConsumerSettings,
        subscription: Subscription,
        metadata_from_record: Callable[[ConsumerRecord], str],
        *,
        until: str | None = None,
    ) -> Source[tuple[TopicPartition, Source[CommittableMessage, NotUsed]], Control]:
        """As `committable_partitioned_source`, with metadata as `commit_with_metadata_source`."""
        name = "Consumer.commit_with_metadata_partitioned_source"
        needs_group(name, settings)
        convert = committable_with_metadata(plain_function(f"{name}: metadata_from_record", metadata_from_record))
        return partitioned_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=convert)

    @staticmethod
    def plain_partitioned_manual_offset_source(
        settings: ConsumerSettings,
        subscription: Subscription,
        get_offsets_on_assign: OffsetsOnAssign,
        on_revoke: OnRevoke | None = None,
        *,
        until: str | None = None,
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """As `plain_partitioned_source`, beginning at offsets that are kept outside of Kafka.

        `get_offsets_on_assign`: called with the set of assigned partitions; returns {partition: offset}, or a future or coroutine of it. A
        partition that is not in the result begins at the group's offset. `on_revoke`: called with the set of revoked partitions."""
        name = "Consumer.plain_partitioned_manual_offset_source"
        _needs_group_for_topics(name, settings, subscription)
        return partitioned_source(
            name,
            settings,
            subscription,
            until,
            commits=Commits.NOBODY,
            offsets_on_assign=function(f"{name}: get_offsets_on_assign", get_offsets_on_assign),
            on_revoke=None if on_revoke is None else plain_function(f"{name}: on_revoke", on_revoke),
        )

    @staticmethod
    def committable_partitioned_manual_offset_source(
        settings: ConsumerSettings,
        subscription: Subscription,
        get_offsets_on_assign: OffsetsOnAssign,
        on_revoke: OnRevoke | None = None,
        *,
        until: str | None = None,
    ) -> Source[tuple[TopicPartition, Source[CommittableMessage, NotUsed]], Control]:
        """As `committable_partitioned_source`, beginning at offsets of your own; see `plain_partitioned_manual_offset_source`."""
        name = "Consumer.committable_partitioned_manual_offset_source"
        needs_group(name, settings)
        return partitioned_source(
            name,
            settings,
            subscription,
            until,
            commits=Commits.OFFSETS,
            convert=committable,
            offsets_on_assign=function(f"{name}: get_offsets_on_assign", get_offsets_on_assign),
            on_revoke=None if on_revoke is None else plain_function(f"{name}: on_revoke", on_revoke),
        )

    @staticmethod
    def at_most_once_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Commit the records of a chunk, then emit them: a record whose processing a crash interrupts is not delivered again.

        `.max_chunk(1)` commits record by record."""
        name = "Consumer.at_most_once_source"
        needs_group(name, settings)
        return consumer_source(name, settings, subscription, until, commits=Commits.BEFORE)

    @staticmethod
    def shared_source(
        settings: SharedSourceSettings | ConsumerSettings, topics: str | Sequence[str] | Subscription
    ) -> Source[SharedRecord, Control]:
        """Read topics as a queue, as a member of a share group (KIP-932): members share each partition, record by record.

        A record is acknowledged when it is done at every sink of the run. It is delivered again when its stage fails, or when the run ends
        before it was done; `SharedRecord.release` and `reject` say otherwise. The source asks for no more records than downstream does, locks at
        most `settings.max_in_flight` of them, and renews the locks of those that are being worked on. Of ConsumerSettings it takes the cluster, the
        user, the group id as that of a share group, and the beginning. Needs Apache Kafka 4.2 or newer with share.version 1."""
        from streamactors.kafka.sources.share_group.shared_sources import shared_source

        return shared_source("Consumer.shared_source", settings, topics)

    @staticmethod
    def shared(settings: ConsumerSettings) -> SharedConsumer:
        """Return a consumer that many sources share, each with partitions of its own: one connection and one poll for all.

        Its `source`, `plain_source` and `committable_source` take `Subscriptions.assignment(…)`; `stop()` ends them all."""
        from streamactors.kafka.sources.shared.shared_consumer import SharedConsumer

        _checked_settings("Consumer.shared", settings)

        def build(
            name: str, of: Any, commits: Commits, convert: Convert | None, link: Callable[[], ConsumerLink]
        ) -> Source[Any, Control]:
            if commits is not Commits.NOBODY:
                needs_group(name, settings)
            return _whole(name, replace(_plan(name, settings, of, None, commits, convert), link=link))

        return SharedConsumer(settings, build)


def _pairs(
    values: Iterable[Any], messages: Iterable[Any], origin: Origin
) -> Iterator[tuple[ConsumerRecord, CommittableOffset]]:
    three = zip(values, messages, repeat(origin), strict=False)
    return ((KeptRecord(each[:2]), CommittableOffset(each)) for each in three)


def needs_group(
    name: str, settings: Any, way_out: str = "read with Consumer.plain_source, which commits nothing"
) -> None:
    """Raise BuildError if the settings have no group."""
    if isinstance(settings, ConsumerSettings) and not settings.group_id:
        raise BuildError(f"{name} needs a group_id; give ConsumerSettings(…, group_id='…'), or {way_out}")


def _needs_group_for_topics(name: str, settings: Any, subscription: Any) -> None:
    """As `needs_group` for topics, whose partitions a group assigns; a subscription to given partitions needs no group."""
    if isinstance(subscription, AutoSubscription):
        needs_group(f"{name} with topics", settings, "assign partitions")


def consumer_source(
    name: str,
    settings: Any,
    subscription: Any,
    until: str | None,
    *,
    commits: Commits,
    convert: Convert | None = None,
    delayed: DelayedTopics | None = None,
    creates: frozenset[str] = frozenset(),
) -> Source[Any, Control]:
    """Return a source for a checked subscription; `creates`: as in ReadPlan. Raises BuildError naming the argument that is wrong."""
    plan = _plan(name, settings, subscription, until, commits, convert)
    return _whole(name, replace(plan, delayed=delayed, creates=creates))


def _whole(name: str, plan: ReadPlan) -> Source[Any, Control]:
    from streamactors.kafka.sources.source_stage import ConsumerSourceStage

    return Source(StageModule(ConsumerSourceStage(name, plan)))


def partitioned_source(
    name: str,
    settings: Any,
    subscription: Any,
    until: str | None,
    *,
    commits: Commits,
    convert: Convert | None = None,
    offsets_on_assign: OffsetsOnAssign | None = None,
    on_revoke: OnRevoke | None = None,
) -> Source[Any, Control]:
    """As `consumer_source`, of sources by partition."""
    from streamactors.kafka.sources.partitioned_stage import PartitionedSourceStage

    plan = _plan(name, settings, subscription, until, commits, convert)
    plan = replace(plan, offsets_on_assign=offsets_on_assign, on_revoke=on_revoke)
    return Source(StageModule(PartitionedSourceStage(name, plan)))


def _checked_settings(name: str, settings: Any) -> None:
    """Raise BuildError unless these are settings of a consumer."""
    if not isinstance(settings, ConsumerSettings):
        raise BuildError(f"{name} expects ConsumerSettings, got {type(settings).__name__}")


def _plan(
    name: str, settings: Any, subscription: Any, until: str | None, commits: Commits, convert: Convert | None
) -> ReadPlan:
    from streamactors.kafka.sources.read_plan import ReadPlan
    from streamactors.kafka.state.source_services import SERVICES

    _checked_settings(name, settings)
    if not isinstance(subscription, Subscription):
        raise BuildError(f"{name} expects a subscription (Subscriptions.topics(…)), got {type(subscription).__name__}")
    if until not in (None, "end"):
        raise BuildError(f"{name}: until must be None or 'end', got {until!r}")
    return ReadPlan(
        settings=settings,
        subscription=subscription,
        services=SERVICES,
        commits=commits,
        until_end=until == "end",
        convert=convert,
    )
