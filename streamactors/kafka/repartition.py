"""Repartitioning: a stream under new keys, through a topic, so that the rows of one key lie in one partition again.

Owner: nobody; this builds the part of a graph that `key_by` puts between a Kafka source and windows. The topic is created with as
many partitions as the input when the run begins. It is written in the run's transaction, or in one of its own where the run has none,
and read back committed: rows under their new keys come neither twice nor not at all. Marks end at the topic, and others begin there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.dsl.kill_switches import KillSwitches
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.engine.blueprint import Joined, StageModule, Wired, keep_right
from streamactors.errors import BuildError
from streamactors.kafka.changelog import producer_beside
from streamactors.kafka.changelog_topics import ensure_topic
from streamactors.kafka.client_consumer import StreamConsumer
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.coupling import couple
from streamactors.kafka.own_end import WatchEnd
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.source_stage import ConsumerSourceStage
from streamactors.kafka.subscriptions import (
    AutoSubscription,
    ManualSubscription,
    Subscription,
    Subscriptions,
    TopicPartition,
)
from streamactors.kafka.topic_rows import TopicRows
from streamactors.kafka.topic_upkeep import TopicUpkeep
from streamactors.kafka.transactional_stage import TransactionalStage
from streamactors.stages.sinks import Ignore
from streamactors.windows.record import Record

ABANDONED_AFTER_MS = 15_000
"""The broker aborts a transaction of ours that nobody ends; readers of the topic wait for so long after a crash."""


def repartitioned(
    input_: ConsumerSourceStage, key_of: Callable[[Any], Any], node: str, bounded: bool
) -> Flow[Any, Record, Any]:
    """The flow from rows that stem from `input_` to rows under the keys `key_of(row)`; its topic is named after `node`.

    `bounded`: the input ends by itself, and then the topic is read to its end, which is known when every instance has written all
    of its part; else, and when the stream is stopped before, it is left where it was."""
    settings = input_.settings
    topic = f"{settings.group_id}-{node}-repartition"
    reading = ConsumerSettings(
        settings.bootstrap_servers,
        topic,
        "earliest",
        properties={**settings.properties, "isolation.level": "read_committed"},
    )
    reading = replace(reading, commit_interval_ms=settings.commit_interval_ms)
    rows = TopicRows("key_by", topic, "msgpack", "msgpack")

    def write(record: Any) -> ProducerRecord:
        return rows.write(record.replace(key=key_of(record)))._replace(partition=None)  # chosen by the key

    producer = producer_beside(settings).with_property("transaction.timeout.ms", ABANDONED_AFTER_MS)
    stage = TransactionalStage(
        "key_by", producer.with_transactional_id(topic), envelopes=False, results=False, fallback=True
    )
    storing: Sink[ProducerRecord, Any] = Sink(Joined(StageModule(stage), StageModule(Ignore()), keep_right))
    sink: Sink[Any, Any] = (
        Flow.identity()
        .via_mat(Flow(StageModule(WatchEnd())), Keep.right)
        .via_mat(KillSwitches.single(), Keep.both)
        .map(write)
        .named(f"write {topic}")
        .to_mat(storing, Keep.both)
    )
    source_stage = ConsumerSourceStage(reading, Subscriptions.topics(topic), commits=Commits.MARKS, until_end=False)
    source_stage.name = "key_by"
    source_stage.application = settings.group_id or ""
    source: Source[Any, Any] = (
        Source(StageModule(source_stage))
        .map(rows.read)
        .named(f"read {topic}")
        .via_mat(KillSwitches.single(), Keep.both)
        .watch_termination(Keep.both)
    )

    def begin(values: list[Any]) -> Any:
        ((own_end, writing), written), ((control, reading_switch), read) = values
        keys = input_partitions(settings, input_.subscription)
        partitions = max(Counter(key.topic for key in keys).values())
        ensure_topic(reading, topic, partitions)
        upkeep = TopicUpkeep(reading, topic, purged=partitions)
        ends = {settings.group_id or "": input_ends(settings, input_.subscription)} if bounded else {}
        upkeep.start()
        read.add_done_callback(lambda _: upkeep.stop())

        def on_written() -> None:
            if not (bounded and own_end.reached):
                control.stop()
            elif input_.reads_marks:
                upkeep.when_written(ends, control.stop_at_end)
            else:
                control.stop_at_end()  # its positions are committed by nobody here

        couple(writing, written, on_written, reading_switch, read)
        return control

    return Flow(Wired((sink.module, source.module), (), ((0, 0),), ((1, 0),), begin))


def input_partitions(settings: ConsumerSettings, subscription: Subscription) -> list[TopicPartition]:
    """All partitions of the topics that a subscription reads now. Raises KafkaError."""
    client = _looking(settings)
    try:
        client.preflight(subscription.topics if isinstance(subscription, AutoSubscription) else ())
        known = client.topics()
    finally:
        client.close()
    names = [topic for topic in _names(subscription, known) if topic in known]
    if not names:
        raise BuildError(f"no topic matches {subscription}, of which the partitions are needed when the run begins")
    return [TopicPartition(topic, number) for topic in names for number in range(known[topic])]


def input_ends(settings: ConsumerSettings, subscription: Subscription) -> dict[TopicPartition, int]:
    """Where all that a subscription reads ends now, as a bounded read sees it. Raises KafkaError."""
    if isinstance(subscription, ManualSubscription):
        return ends_of(settings, subscription.partitions)
    return ends_of(settings, input_partitions(settings, subscription))


def ends_of(settings: ConsumerSettings, keys: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
    """Where these partitions end now, as a bounded read sees it. Raises KafkaError."""
    client = _looking(settings)
    try:
        return client.stable_ends(keys)
    finally:
        client.close()


def _looking(settings: ConsumerSettings) -> StreamConsumer:
    return StreamConsumer(
        ConsumerSettings(settings.bootstrap_servers, None, "earliest", properties=settings.security())
    )


def _names(subscription: Subscription, known: Iterable[str]) -> Iterable[str]:
    if isinstance(subscription, ManualSubscription):
        return {key.topic for key in subscription.partitions}
    assert isinstance(subscription, AutoSubscription)
    if subscription.pattern is None:
        return subscription.topics
    return [topic for topic in known if re.match(subscription.pattern, topic)]
