"""Consumer.topics: a topology over the topics of one group. Each instance of the group runs the tasks of its partitions.

One source reads all topics of the topology, its repartition topics among them; one stage runs the tasks; what leaves for
repartition topics and for the topics of `to` is written in the run's transaction, with changelogs and positions: exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from streamactors.actors.futures import StreamFuture
from streamactors.dsl.dynamic.kill_switches import KillSwitches
from streamactors.dsl.flow import Flow
from streamactors.dsl.keep import Keep
from streamactors.dsl.sink import Sink
from streamactors.dsl.source import Source
from streamactors.durations import Duration, whole_ms
from streamactors.engine.blueprint.modules import Joined, StageModule, Wired, keep_right
from streamactors.errors import AbruptTermination, BuildError
from streamactors.kafka.client.admin import Admin
from streamactors.kafka.client.offsets.newest_keys import newest_keys
from streamactors.kafka.controls.control import Control
from streamactors.kafka.settings import ConsumerSettings, ProducerSettings
from streamactors.kafka.state.changelogs.changelog_topics import ensure_topic
from streamactors.kafka.state.changelogs.global_tables import GlobalEntries, GlobalTables
from streamactors.kafka.state.partition_counts import partition_counts
from streamactors.kafka.state.repartition import instance_of, writer_beside
from streamactors.kafka.state.short_grace import warn_of_short_grace
from streamactors.kafka.state.topic_keys import TopicKeys
from streamactors.kafka.state.topic_upkeep import TopicUpkeep
from streamactors.kafka.state.topology_end import TopologyEnd
from streamactors.kafka.state.topology_rows import TopologyRows, reader_of
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.kafka.transactions.transactional_stage import TransactionalStage
from streamactors.stages.sinks.values import Ignore
from streamactors.windows.definitions.intake import Intake
from streamactors.windows.definitions.names import checked_group
from streamactors.windows.definitions.windowing import Semantics
from streamactors.windows.stage.stage import WindowStage
from streamactors.windows.topology.edges import Output
from streamactors.windows.topology.graces import graces_after_repartition
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.table import TopologyTable
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.topics import TopologyTopics

RESULT = "\x00result"
"""The topic of the rows that `source` emits."""
_log = logging.getLogger("streamactors.kafka")


class KafkaTopics(TopologyTopics):
    """The topics of one group as streams and tables; made by Consumer.topics."""

    def __init__(
        self,
        settings: ConsumerSettings,
        semantics: Semantics,
        max_task_idle: Duration | None,
        changelog: bool,
        producer: ProducerSettings | None,
        read: Callable[[ConsumerSettings, list[str], list[str], bool], Source[Any, Control]],
        *,
        bounded: bool = False,
    ) -> None:
        """`read(settings, topics, created, to_the_end)`: returns the source of the records of topics; the run creates those of `created` when they are
        missing. `bounded`: the run ends with them."""
        super().__init__(semantics)
        self.topology.prefix = f"{settings.group_id}-"
        self._settings = settings
        idle_ms = None if max_task_idle is None else whole_ms(max_task_idle, "Consumer.topics: max_task_idle")
        self._intake = Intake(changelog, idle_ms)
        if producer is not None and not isinstance(producer, ProducerSettings):
            raise BuildError(f"Consumer.topics: producer is {producer!r}; give ProducerSettings, or none")
        self._producer = producer
        self._source_of = read
        self._bounded = bounded
        self._emitted: TopologyStream | TopologyTable | None = None  # the stream or table of `source`

    def source(
        self, result: TopologyStream | TopologyTable, *, idle_after: Duration | None = None
    ) -> Source[Any, Control]:
        """The rows of a stream or table of this topology, as a Source of Records, or of WindowedRecords after windows.

        The topology runs whole, with everything that `to` writes. Its positions are committed when the sinks of the run have
        done the rows. `idle_after`: as in windowed_by."""
        if not isinstance(result, TopologyStream | TopologyTable) or result.topology is not self.topology:
            raise BuildError(f"topics.source: {result!r} is not a stream or table of this topology")
        if self._emitted is None:
            self._emitted = result
            result.to(RESULT)
        elif self._emitted is not result:
            raise BuildError(
                "topics.source: this topology has the source of another stream already, and it runs whole; write other streams with to(topic), "
                "or build another topology with Consumer.topics, in another group"
            )
        outputs, _ = self._outputs(idle_after)
        return outputs.map(lambda output: output.record)

    def graph(self, *, idle_after: Duration | None = None) -> Any:
        """Return the whole topology as a runnable graph, which writes the streams and tables that have a `to`. run() returns its Control.

        `control.completion` is done when the topology has ended, its consumer is closed and its state as well; it fails with the topology's
        error, which is also logged."""
        outputs, writer = self._outputs(idle_after)
        return outputs.to_mat(Sink.ignore() if writer is None else writer, self._completing)

    def _completing(self, control: Control, done: StreamFuture[Any]) -> Control:
        group = self._settings.group_id
        completion: StreamFuture[Any] = StreamFuture("topology")

        def tell(_: object) -> None:
            error = AbruptTermination("the end of the topology was cancelled") if done.cancelled() else done.exception()
            if error is not None and not isinstance(error, AbruptTermination):
                notes = "".join(f"; {note}" for note in getattr(error, "__notes__", ()))
                _log.error("the topology of group %s has failed: %s: %s%s", group, type(error).__name__, error, notes)
            control.is_shutdown.add_done_callback(
                lambda _: completion.try_complete(done.result()) if error is None else completion.try_fail(error)
            )

        control.completion = completion
        done.add_done_callback(tell)
        return control

    def _outputs(self, idle_after: Duration | None) -> tuple[Source[Output, Control], Sink[Any, Any] | None]:
        """Return the Outputs of RESULT and None, or all Outputs and their sink where nothing goes to RESULT."""
        settings, topology = self._settings, self.topology
        if self._intake.changelog and any(node.store is not None for node in topology.nodes):
            checked_group("Consumer.topics", settings.group_id)
        internal = [topic for topic, source in topology.sources.items() if source.internal]
        if internal:
            settings = settings.with_property("isolation.level", "read_committed")
        rows = TopologyRows(topology)
        tables = {
            topic: GlobalEntries(topic, reader_of(source))
            for topic, source in topology.sources.items()
            if not source.partitioned
        }
        names = [topic for topic, source in topology.sources.items() if source.partitioned]
        if not names:
            raise BuildError("Consumer.topics: the topology reads no topic; make a stream or a table first")
        factory = TaskFactory(
            topology,
            in_memory=False,
            intake=self._intake,
            globals=tables,
            idle_after_ms=None if idle_after is None else whole_ms(idle_after, "idle_after", minimum=1),
        )
        source = self._source_of(settings, names, internal, self._bounded and not internal)
        stage = WindowStage(factory)
        read: Source[Any, Any] = source.map(rows.read).named("read topics")
        if tables:
            read = read.via_mat(KillSwitches.single(), Keep.both)
        outputs: Any = read._via(stage) if topology.late is None else read._fan_out(stage, topology.late)
        writer: Sink[Any, Any] | None = self._writer(rows)
        if self._emitted is not None:
            outputs = outputs.divert_to(writer, lambda output: output.topic != RESULT)
            writer = None
        begin = self._beginning(settings, names, internal, tables, factory, rows.keys)
        return Source(Wired((outputs.watch_termination(Keep.both).module,), (), (), ((0, 0),), begin)), writer

    def _writer(self, rows: TopologyRows) -> Sink[Any, Any]:
        producer = self._producer
        if producer is None:
            producer = writer_beside(self._settings, f"{self._settings.group_id}-topology")
        fallback, named = self._producer is None, instance_of(self._settings) != ""
        stage = TransactionalStage("to", producer, envelopes=False, results=False, fallback=fallback, named=named)
        storing: Sink[Any, Any] = Sink(Joined(StageModule(stage), StageModule(Ignore()), keep_right))
        return Flow.map(rows.write).to_mat(storing, Keep.right)

    def _beginning(
        self,
        settings: ConsumerSettings,
        names: list[str],
        internal: list[str],
        tables: dict[str, GlobalEntries],
        factory: TaskFactory,
        keys: TopicKeys,
    ) -> Callable[[list[Any]], Control]:
        def begin(values: list[Any]) -> Control:
            switch: Any = None
            control, done = values[0]
            if tables:
                control, switch = control
            admin = Admin(settings)
            counts = {name: len(admin.partitions_of(name)) for name in names if name not in internal}
            counts |= partition_counts(self.topology, counts, factory.keeps_state)
            for topic in keys.asked:
                for key in newest_keys(settings, admin, topic):
                    keys.see(topic, key)
            if not self._bounded:
                warn_of_short_grace(settings, graces_after_repartition(self.topology))
            helpers: list[TopicUpkeep | TopologyEnd] = []
            for topic in internal:
                ensure_topic(settings, topic, counts[topic])
                helpers.append(TopicUpkeep(settings, topic, purged=counts[topic]))
            if internal and self._bounded:
                outer = [key for name in names if name not in internal for key in admin.partitions_of(name)]
                inner = [TopicPartition(topic, number) for topic in internal for number in range(counts[topic])]
                helpers.append(TopologyEnd(settings, outer, inner, control.stop_at_end))
            if tables:
                filling = GlobalTables(settings, tables, switch.abort)
                filling.fill()
                done.add_done_callback(lambda _: filling.stop())
            for helper in helpers:  # nothing fails from here on, and what has begun ends with the run
                helper.start()
                done.add_done_callback(lambda _, helper=helper: helper.stop())
            return control  # type: ignore[no-any-return]

        return begin
