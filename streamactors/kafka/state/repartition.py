"""Repartitioning: a stream with new keys goes through a topic, so that all rows of a key are in one partition again.

This builds the part of a graph that `key_by` puts between a Kafka source and windows. The run creates the topic with as many partitions
as the input. The rows are written in the run's transaction, or in a transaction of their own where the run has none, and the
committed rows are read back: each row arrives exactly once. The marks of the input end at the topic; the topic's own marks begin there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from streamactors.dsl.dynamic.kill_switches import KillSwitches
from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.blueprint.modules import Joined, StageModule, Wired, keep_right
from streamactors.errors import BuildError
from streamactors.kafka.client.admin import LATEST, Admin
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.sources.source_stage import ConsumerSourceStage
from streamactors.kafka.state.changelogs.changelog import producer_beside
from streamactors.kafka.state.changelogs.changelog_topics import ensure_topic
from streamactors.kafka.state.coupling import couple
from streamactors.kafka.state.input_end import WatchEnd
from streamactors.kafka.state.short_grace import warn_of_short_grace
from streamactors.kafka.state.topic_rows import TopicRows
from streamactors.kafka.state.topic_upkeep import TopicUpkeep
from streamactors.kafka.subscriptions import (
    AutoSubscription,
    ManualSubscription,
    Subscription,
    Subscriptions,
    TopicPartition,
)
from streamactors.kafka.transactions.transactional_stage import TransactionalStage
from streamactors.stages.sinks.values import Ignore
from streamactors.windows.definitions.names import topic_of
from streamactors.windows.record import Record

ABANDONED_AFTER_MS = 15_000
"""The broker aborts an abandoned transaction after this time; after a crash, readers of the topic wait for it, unless the run's
member has a name (`group.instance.id`)."""


def repartitioned(
    input_: ConsumerSourceStage, key_of: Callable[[Any], Any], node: str, graces: Mapping[str, int], bounded: bool
) -> Flow[Any, Record, Any]:
    """Return the flow from the rows of `input_` to rows with the keys `key_of(row)`; its topic is named after `node`.

    `graces`: of the windows after the topic, by step, in ms. `bounded`: the input has an end. Then the topic is read to its end, which is known when every instance has written all of its
    rows. Otherwise, and when the stream is stopped before its end, reading stops at once and continues there after a restart."""
    settings = input_.plan.settings
    if not settings.group_id:
        raise BuildError(
            "key_by needs a group_id, after which its topic is named; give ConsumerSettings(…, group_id='…')"
        )
    topic = topic_of(f"key_by {node!r}", settings.group_id, node, "repartition")
    reading = replace(
        settings,
        group_id=topic,
        auto_offset_reset="earliest",
        reset_protection=None,  # records that were processed are deleted from the topic
        properties={**settings.properties, "isolation.level": "read_committed"},
    )
    rows = TopicRows("key_by", topic, "msgpack", "msgpack")

    def write(record: Any) -> ProducerRecord:
        return rows.write(record.replace(key=key_of(record)))

    producer = writer_beside(settings, topic)
    named = instance_of(settings) != ""
    stage = TransactionalStage("key_by", producer, envelopes=False, results=False, fallback=True, named=named)
    storing: Sink[ProducerRecord, Any] = Sink(Joined(StageModule(stage), StageModule(Ignore()), keep_right))
    watching: Flow[Any, Any, Any] = Flow(StageModule(WatchEnd()))
    sink: Sink[Any, Any] = (
        watching.via_mat(KillSwitches.single(), Keep.both).map(write).named(f"write {topic}").to_mat(storing, Keep.both)
    )
    source_stage = input_.reading_between("key_by", reading, Subscriptions.topics(topic))
    source: Source[Any, Any] = (
        Source(StageModule(source_stage))
        .map(rows.read)
        .named(f"read {topic}")
        .via_mat(KillSwitches.single(), Keep.both)
        .watch_termination(Keep.both)
    )

    begin = RepartitionRun(input_, reading, topic, graces, bounded)
    return Flow(Wired((sink.module, source.module), (), ((0, 0),), ((1, 0),), begin))


def instance_of(settings: ConsumerSettings) -> str:
    """Return the name that the member keeps across restarts, its group.instance.id; "" if it has none."""
    return str(settings.client_properties().get("group.instance.id") or "")


def writer_beside(settings: ConsumerSettings, transactional_id: str) -> ProducerSettings:
    """Return the settings of a run's own transaction. A member with a name has the same id after a restart: killed in the middle of a transaction ->
    its next run fences it at once, and readers wait for no timeout."""
    instance = instance_of(settings)
    own = f"{transactional_id}-{instance}" if instance else transactional_id
    producer = producer_beside(settings).with_property("transaction.timeout.ms", ABANDONED_AFTER_MS)
    return producer.with_transactional_id(own)


@dataclass(frozen=True)
class RepartitionRun:
    """A run's part around a repartition topic. The run calls it with the values that the two halves materialize.

    `reading`: how the topic is read."""

    input_: ConsumerSourceStage
    reading: ConsumerSettings
    topic: str
    graces: Mapping[str, int]
    bounded: bool

    def prepare_topic(self) -> TopicUpkeep:
        """Create the topic if it is missing; return what deletes its processed records, not started. Raises TopicNotFound, KafkaError."""
        plan = self.input_.plan
        keys = input_partitions(plan.settings, plan.subscription)
        partitions = max(Counter(key.topic for key in keys).values())
        ensure_topic(self.reading, self.topic, partitions)
        return TopicUpkeep(self.reading, self.topic, purged=partitions)

    def __call__(self, values: list[Any]) -> Any:
        """Couple the halves, and return the control of the reading half."""
        ((input_end, writing), written), ((control, reading_switch), read) = values
        upkeep = self.prepare_topic()
        settings, subscription = self.input_.plan.settings, self.input_.plan.subscription
        ends = {settings.group_id or "": input_ends(settings, subscription)} if self.bounded else {}
        if not self.bounded:
            warn_of_short_grace(settings, self.graces)
        upkeep.start()
        read.add_done_callback(lambda _: upkeep.stop())

        def on_written() -> None:
            if not (self.bounded and input_end.reached):
                control.stop()
            elif self.input_.traits.reads_marks:
                upkeep.when_written(ends, control.stop_at_end)
            else:
                control.stop_at_end()  # this run commits no positions of the input

        couple(writing, written, on_written, reading_switch, read)
        return control


def input_partitions(settings: ConsumerSettings, subscription: Subscription) -> list[TopicPartition]:
    """Return all current partitions of the topics that a subscription reads. Raises TopicNotFound, KafkaError."""
    admin = Admin(settings)
    if isinstance(subscription, ManualSubscription):
        names: Iterable[str] = sorted({key.topic for key in subscription.partitions})
    else:
        assert isinstance(subscription, AutoSubscription)
        names = subscription.topics
        if subscription.pattern is not None:
            pattern = re.compile(subscription.pattern)
            names = [topic.name for topic in admin.topics() if pattern.match(topic.name)]
    found = [key for name in names for key in admin.partitions_of(name)]
    if not found:
        raise BuildError(f"no topic matches {subscription}; the run needs its number of partitions at the start")
    return found


def input_ends(settings: ConsumerSettings, subscription: Subscription) -> dict[TopicPartition, int]:
    """Return the ends of a bounded read of a subscription that starts now. Raises KafkaError."""
    if isinstance(subscription, ManualSubscription):
        return ends_of(settings, subscription.partitions)
    return ends_of(settings, input_partitions(settings, subscription))


def ends_of(settings: ConsumerSettings, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Return the ends of a bounded read of these partitions that starts now. Raises KafkaError."""
    return Admin(settings).offsets(dict.fromkeys(keys, LATEST), committed=True)
