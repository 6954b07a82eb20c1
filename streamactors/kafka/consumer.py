"""Consumer: the sources over Kafka topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any, Literal

from streamactors.dsl.source import Source
from streamactors.dsl.with_context import SourceWithContext
from streamactors.engine.blueprint import StageModule
from streamactors.engine.stage import NotUsed
from streamactors.errors import BuildError
from streamactors.kafka.committable import CommittableMessage, CommittableOffset, Convert, Origin, committable
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.control import Control
from streamactors.kafka.manual_offsets import OffsetsOnAssign, OnRevoke
from streamactors.kafka.partitioned_stage import PartitionedSourceStage
from streamactors.kafka.record import ConsumerRecord, KeptRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.source_stage import ConsumerSourceStage
from streamactors.kafka.subscriptions import AutoSubscription, Subscription, TopicPartition
from streamactors.stages.checks import function, plain_function
from streamactors.windows.record import Record


class Consumer:
    """Factories of sources; each materializes a `Control`.

    `until="end"`: a bounded read that completes at the ends the partitions had when they were assigned."""

    @staticmethod
    def source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records, and commit an offset when its record is done at every sink of the run: at least once, whatever is between."""
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
        """As `source`, with the records' own keys and values deserialised: Record(key, value, timestamp), with `.context` telling
        topic, partition, offset and headers. What windows take.

        `key`, `value`: a Serde, its name (bytes, string, integer, json, msgpack) or a function from bytes. `timestamp`: from the Record to ms
        since 1970; default the record's own. `dead_letters`: a topic for records that cannot be read, whose offsets are committed
        when they are stored there; without it the first one fails the stream, or, with `errors="emit"`, becomes an `Err` element."""
        from streamactors.kafka.records import records

        source = Consumer.source(settings, subscription, until=until)
        return records(
            "Consumer.records",
            source,
            settings,
            key=key,
            value=value,
            timestamp=timestamp,
            dead_letters=dead_letters,
            errors=errors,
        )

    @staticmethod
    def plain_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[ConsumerRecord, Control]:
        """Emit records and commit nothing."""
        name = "Consumer.plain_source"
        _needs_group_for_topics(name, settings, subscription)
        return consumer_source(name, settings, subscription, until, commits=Commits.NOBODY)

    @staticmethod
    def committable_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[CommittableMessage, Control]:
        """Emit records with their offsets in hand (`.record`, `.offset`), to be committed by `offset.commit()` or a Committer.

        Before a Committer an offset counts for itself alone, and what is filtered or grouped on the way counts by its place in the
        stream: nothing is committed over a record that is still being worked on. Where a stage on the way hides that, and
        without a Committer, committing an offset commits everything before it."""
        needs_group("Consumer.committable_source", settings)
        name = "Consumer.committable_source"
        return consumer_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=committable)

    @staticmethod
    def source_with_offset_context(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> SourceWithContext[ConsumerRecord, CommittableOffset, Control]:
        """Emit records with their offsets as context, for `Committer.sink_with_offset_context`."""
        name = "Consumer.source_with_offset_context"
        needs_group(name, settings)
        source = consumer_source(name, settings, subscription, until, commits=Commits.OFFSETS, convert=_pairs)
        return SourceWithContext(source.module)

    @staticmethod
    def partitioned_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """Emit (partition, source of its records) for each assigned partition; commit as `Consumer.source` does.

        For `flat_map_merge(breadth, lambda pair: pair[1]…)`, breadth at least the number of partitions; or run each source apart, for
        instance in `map_async`: then an offset is committed when its record is done at every sink of that run, and in the transaction of a
        Transactional.sink there (a transactional id for each partition). A source completes when its
        partition is revoked; when it is cancelled, the partition is handed out anew from the first record not taken."""
        name = "Consumer.partitioned_source"
        needs_group(name, settings)
        return partitioned_source(name, settings, subscription, until, commits=Commits.MARKS)

    @staticmethod
    def plain_partitioned_source(
        settings: ConsumerSettings, subscription: Subscription, *, until: str | None = None
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """As `partitioned_source`, and commit nothing."""
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
    def plain_partitioned_manual_offset_source(
        settings: ConsumerSettings,
        subscription: Subscription,
        get_offsets_on_assign: OffsetsOnAssign,
        on_revoke: OnRevoke | None = None,
        *,
        until: str | None = None,
    ) -> Source[tuple[TopicPartition, Source[ConsumerRecord, NotUsed]], Control]:
        """As `plain_partitioned_source`, beginning where you say, for offsets kept outside of Kafka.

        `get_offsets_on_assign`: from the set of partitions assigned to {partition: offset}, or a future or coroutine of that; a partition that
        is not in it begins at the group's offset. `on_revoke`: called with the set of partitions taken away."""
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
        """As `committable_partitioned_source`, beginning where you say; see `plain_partitioned_manual_offset_source`."""
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
        """Emit records after they were committed, chunk by chunk: what a crash interrupts is not delivered again.

        `.max_chunk(1)` commits record by record."""
        name = "Consumer.at_most_once_source"
        needs_group(name, settings)
        return consumer_source(name, settings, subscription, until, commits=Commits.BEFORE)


def _pairs(
    values: Iterable[Any], messages: Iterable[Any], origin: Origin
) -> Iterator[tuple[ConsumerRecord, CommittableOffset]]:
    three = zip(values, messages, repeat(origin), strict=False)
    return ((KeptRecord(each[:2]), CommittableOffset(each)) for each in three)


def needs_group(name: str, settings: Any) -> None:
    """Raise BuildError if the settings have no group."""
    if isinstance(settings, ConsumerSettings) and not settings.group_id:
        raise BuildError(f"{name} needs a group_id; give ConsumerSettings(…, group_id='…'), or assign partitions")


def _needs_group_for_topics(name: str, settings: Any, subscription: Any) -> None:
    """As `needs_group` where a group shares the topics out; assigned partitions need none to be read."""
    if isinstance(subscription, AutoSubscription):
        needs_group(f"{name} with topics", settings)


def consumer_source(
    name: str,
    settings: Any,
    subscription: Any,
    until: str | None,
    *,
    commits: Commits,
    convert: Convert | None = None,
) -> Source[Any, Control]:
    """Return a source of a checked subscription. Raises BuildError naming what is wrong."""
    _check(name, settings, subscription, until)
    stage = ConsumerSourceStage(settings, subscription, commits=commits, until_end=until == "end", convert=convert)
    stage.name = name
    return Source(StageModule(stage))


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
    _check(name, settings, subscription, until)
    stage = PartitionedSourceStage(
        settings,
        subscription,
        commits=commits,
        until_end=until == "end",
        convert=convert,
        offsets_on_assign=offsets_on_assign,
        on_revoke=on_revoke,
    )
    stage.name = name
    return Source(StageModule(stage))


def _check(name: str, settings: Any, subscription: Any, until: str | None) -> None:
    if not isinstance(settings, ConsumerSettings):
        raise BuildError(f"{name} expects ConsumerSettings, got {type(settings).__name__}")
    if not isinstance(subscription, Subscription):
        raise BuildError(f"{name} expects a subscription (Subscriptions.topics(…)), got {type(subscription).__name__}")
    if until not in (None, "end"):
        raise BuildError(f"{name}: until must be None or 'end', got {until!r}")
