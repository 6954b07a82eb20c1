"""through_topic: a stream written to a topic, transactionally, and read back: what is behind it has committed records only, can be begun
anew at any position, and remembers nothing.

It ends one run of marks and begins another: what is done at the topic is done for the sources before it, and the sinks behind it
answer to the topic's own offsets. So it stands between what blurs or remembers (windows, groupings, an opaque stage) and a sink that
needs exact cuts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.dsl.kill_switches import KillSwitches
from streamactors.engine.blueprint import StageModule, Wired
from streamactors.errors import BuildError
from streamactors.kafka.changelog import KafkaChangelogs
from streamactors.kafka.changelog_topics import ensure_topic
from streamactors.kafka.consumer import consumer_source, needs_group
from streamactors.kafka.consumer_messages import Commits
from streamactors.kafka.control import Control
from streamactors.kafka.coupling import couple
from streamactors.kafka.own_end import OwnEnd, WatchEnd
from streamactors.kafka.repartition import input_ends
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.subscriptions import Subscriptions, TopicPartition
from streamactors.kafka.topic_rows import TopicRows
from streamactors.kafka.topic_upkeep import TopicUpkeep
from streamactors.kafka.transactional import Transactional
from streamactors.stages.checks import positive
from streamactors.stages.kill_switch import KillSwitch
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

    Emits when: a row was committed and read.    Backpressures when: the topic is behind, or `parallelism` rows wait to be stored.
    Completes when: upstream has completed and everything written was read back, right behind bounded reads also what other
    instances of their groups write (behind `key_by` those that end later read it).   Cancels when: downstream cancels.
    Fails when: upstream fails; a row cannot be stored; the topic cannot be read.

    Rows keep key, value, timestamp, headers and partition (of their `.context`). `settings`: how it is read; the group is
    "<group_id>.<name>", so a restart goes on where the rows behind it were done. `producer`: how it is written, with a
    transactional_id, the same as of other transactional sinks of the run; default "<group_id>.<name>". `key`, `value`: a Serde or its
    name. `partitions`: create the topic with so many when it is missing, and with retention.ms=-1, for a broker's retention
    goes by the rows' own time and would delete old ones unread; without it a missing topic is an error of `run`."""
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
        producer = ProducerSettings(settings.bootstrap_servers, properties=settings.security())
        producer = producer.with_transactional_id(group)
    rows = TopicRows(where, name, key, value)
    write: Flow[Any, Any, tuple[OwnEnd, KillSwitch]] = (
        Flow(StageModule(WatchEnd())).via_mat(KillSwitches.single(), Keep.both).map(rows.write).named(f"write {name}")
    )
    sink = write.to_mat(Transactional.sink(producer), Keep.both)
    source = (
        consumer_source(where, reading, Subscriptions.topics(name), None, commits=Commits.MARKS)
        .map(rows.read)
        .named(f"read {name}")
        .via_mat(KillSwitches.single(), Keep.both)
        .watch_termination(Keep.both)
    )

    def begin(values: list[Any]) -> Control:
        ((own_end, writing), written), ((control, reading_switch), read) = values
        ensure_topic(reading, name, partitions)
        ends = ends_by_group(own_end)
        upkeep = TopicUpkeep(reading, name, purged=0) if ends else None
        if upkeep is not None:
            upkeep.start()
            read.add_done_callback(lambda _: upkeep.stop())

        def on_written() -> None:
            if upkeep is not None and own_end.reached:
                upkeep.when_written(ends, control.stop_at_end)
            else:
                control.stop_at_end()

        couple(writing, written, on_written, reading_switch, read)
        return control  # type: ignore[no-any-return]

    return Flow(Wired((sink.module, source.module), (), ((0, 0),), ((1, 0),), begin))


def ends_by_group(own_end: OwnEnd) -> dict[str, dict[TopicPartition, int]]:
    """Where the inputs of a stream end, when all of them are bounded reads of groups whose positions the run commits; else nothing,
    for then nobody can tell what other instances will still write. Raises KafkaError."""
    found: dict[str, dict[TopicPartition, int]] = {}
    for source in own_end.sources():
        if not (isinstance(source, KafkaChangelogs) and source.bounded and source.commits_done):
            return {}
        ends = input_ends(source.settings, source.subscription)
        found.setdefault(source.settings.group_id or "", {}).update(ends)
    return found
