"""through_topic: writes a stream to a topic in transactions and reads it back. The stages downstream of it get committed rows only, and can
start again from any offset of the topic.

The marks of the input end at the topic: a row stored in the topic is done for the sources before it. The topic's own marks begin there, and
the sinks downstream of it commit the topic's offsets. So it stands between stages that blur marks or keep state (windows, groupings, an opaque
stage) and a sink that needs exact cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from streamactors.dsl.dynamic.kill_switches import KillSwitches
from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.engine.blueprint.modules import StageModule, Wired
from streamactors.errors import BuildError
from streamactors.kafka.consumer import consumer_source, needs_group
from streamactors.kafka.controls.control import Control
from streamactors.kafka.reading.messages import Commits
from streamactors.kafka.round_trips.transactional import Transactional
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.state.changelogs.changelog_provider import ChangelogProvider
from streamactors.kafka.state.changelogs.changelog_topics import ensure_topic
from streamactors.kafka.state.coupling import couple
from streamactors.kafka.state.input_end import InputEnd, WatchEnd
from streamactors.kafka.state.repartition import input_ends
from streamactors.kafka.state.topic_rows import TopicRows
from streamactors.kafka.state.topic_upkeep import TopicUpkeep
from streamactors.kafka.subscriptions import Subscriptions, TopicPartition
from streamactors.stages.checks import positive
from streamactors.stages.control.kill_switch import KillSwitch
from streamactors.windows.record import Record, WindowedRecord

Row = TypeVar("Row", Record, WindowedRecord, Record | WindowedRecord)


def through_topic(
    name: str,
    settings: ConsumerSettings,
    *,
    producer: ProducerSettings | None = None,
    key: Any = "msgpack",
    value: Any = "msgpack",
    partitions: int | None = None,
) -> Flow[Row, Row, Control]:
    """Return the flow that writes rows (Record, WindowedRecord) to topic `name` and emits them as they are read back, once committed.

    Emits when: a row was committed and read.    Backpressures when: the topic lags, or `parallelism` rows wait to be stored.
    Completes when: upstream has completed and every written row was read back; directly after bounded reads, also the rows that other
    instances of their groups write (after `key_by`, the instances that end later read them).   Cancels when: downstream cancels.
    Fails when: upstream fails; a row cannot be stored; the topic cannot be read.

    Rows keep key, value, timestamp, headers and partition (of their `.context`).
    `settings`: how the topic is read, by the group "<group_id>.<name>"; a restart continues after the rows that were done.
    `producer`: how it is written; its transactional_id is that of all transactional sinks of the run; default "<group_id>.<name>".
    `key`, `value`: a Serde or its name.
    `partitions`: creates a missing topic with this number of partitions and retention.ms=-1, because the broker's retention uses the rows'
    timestamps and would delete old rows unread. Without it a missing topic is an error of `run`."""
    where = "through_topic"
    needs_group(where, settings)
    if not isinstance(settings, ConsumerSettings):
        raise BuildError(f"{where} expects ConsumerSettings, got {type(settings).__name__}")
    if not isinstance(name, str) or not name:
        raise BuildError(f"{where} expects the name of a topic, got {name!r}")
    if partitions is not None:
        positive(where, "partitions", partitions)
    group = f"{settings.group_id}.{name}"
    reading = replace(settings, group_id=group, auto_offset_reset="earliest")
    reading = reading.with_property("isolation.level", "read_committed")
    if producer is None:
        producer = settings.as_producer()
        producer = producer.with_transactional_id(group)
    rows = TopicRows(where, name, key, value)
    made = frozenset() if partitions is None else frozenset({name})
    write: Flow[Any, Any, tuple[InputEnd, KillSwitch]] = (
        Flow(StageModule(WatchEnd()))
        .via_mat(KillSwitches.single(), Keep.both)
        .map(rows.write_beside)
        .named(f"write {name}")
    )
    sink = write.to_mat(Transactional.sink(producer), Keep.both)
    source = (
        consumer_source(where, reading, Subscriptions.topics(name), None, commits=Commits.MARKS, creates=made)
        .map(rows.read)
        .named(f"read {name}")
        .via_mat(KillSwitches.single(), Keep.both)
        .watch_termination(Keep.both)
    )

    def begin(values: list[Any]) -> Control:
        ((input_end, writing), written), ((control, reading_switch), read) = values
        ensure_topic(reading, name, partitions)
        ends = ends_by_group(input_end)
        upkeep = TopicUpkeep(reading, name, purged=0) if ends else None
        if upkeep is not None:
            upkeep.start()
            read.add_done_callback(lambda _: upkeep.stop())

        def on_written() -> None:
            if upkeep is not None and input_end.reached:
                upkeep.when_written(ends, control.stop_at_end)
            else:
                control.stop_at_end()

        couple(writing, written, on_written, reading_switch, read)
        return control  # type: ignore[no-any-return]

    return Flow(Wired((sink.module, source.module), (), ((0, 0),), ((1, 0),), begin))


def ends_by_group(input_end: InputEnd) -> dict[str, dict[TopicPartition, int]]:
    """Return the ends of a stream's inputs, by group, if all inputs are bounded reads whose offsets the run commits.

    Otherwise return nothing: the rows that other instances will still write are unknown. Raises KafkaError."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for source in input_end.sources():
        if not (isinstance(source, ChangelogProvider) and source.bounded and source.commits_done):
            return {}
        ends = input_ends(source.settings, source.subscription)
        found.setdefault(source.settings.group_id or "", {}).update(ends)
    return found
