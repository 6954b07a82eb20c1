"""The beginning of a topology: its topics as streams and tables, and the factory of its tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streamactors.clock import SystemClock
from streamactors.errors import BuildError
from streamactors.windows.definitions.blueprint import Blueprint, Intake, Semantics
from streamactors.windows.definitions.duration import Duration
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.task_factory import TaskFactory
from streamactors.windows.record import LateRecord
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.store_log import TaskIdentity
from streamactors.windows.topology.edges import Outbox
from streamactors.windows.topology.model import Build, SourceNode, Topology
from streamactors.windows.topology.nodes.join_nodes import LookupNode
from streamactors.windows.topology.nodes.table_nodes import table_source
from streamactors.windows.topology.queues import InternalQueues
from streamactors.windows.topology.stream import TopologyStream
from streamactors.windows.topology.sub_topologies import sub_topologies_of
from streamactors.windows.topology.table import GlobalTable, TopologyTable
from streamactors.windows.topology.topology_task import TopologyTask

ROWS_FOR_A_CALL: Final = 4
"""Rows that are taken together for each call that a lookup may have under way; many of their keys have an answer already."""


class TopologyTopics:
    """The topics of one topology. `semantics`: that of its steps; a step may be given another."""

    def __init__(self, semantics: Semantics = "strict") -> None:
        self.topology = Topology(semantics)

    def stream(self, topic: str, *, key: Any = None, value: Any = None, timestamp: Any = None) -> TopologyStream:
        """The rows of a topic. `key`, `value`: a Serde or its name; `timestamp`: from the Record to ms, default its own."""
        return TopologyStream(self.topology, self._source("stream", topic, key, value, timestamp))

    def table(
        self,
        topic: str,
        *,
        key: Any = None,
        value: Any = None,
        timestamp: Any = None,
        name: str | None = None,
        history: Duration | None = None,
        ttl: Duration | None = None,
    ) -> TopologyTable:
        """The latest row of each key of a topic; None deletes. Rows whose key is None are dropped and counted.

        `name`: of its store; without a name the table has a store only if a step reads it. `history` (ms, a timedelta or a text): keep older
        versions for so long (stream time), so that a join finds the version that was valid at a row's time; older rows are refused. `ttl`
        (the same): an entry expires when the stream time of the task reaches its timestamp + ttl; then it is not read any more, and its deletion is
        forwarded behind the row that has moved the time."""
        source = self._source("table", topic, key, value, timestamp)
        node = table_source(self.topology, "table", name, history, ttl)
        return TopologyTable(self.topology, self.topology.add(node, source))

    def global_table(
        self, topic: str, *, key: Any = None, value: Any = None, timestamp: Any = None, name: str | None = None
    ) -> GlobalTable:
        """A table of which every task has all partitions. It is filled before the first row, then follows its topic."""
        if topic in self.topology.sources:
            raise BuildError(f"global_table: {topic!r} is read as a stream or table already; read it once")
        source = self._source("global_table", topic, key, value, timestamp)
        source.partitioned = False
        node = table_source(self.topology, "global-table", name, None)
        node.materialize()
        node.topic = topic
        self.topology.add(node, source)
        return GlobalTable(self.topology, node)

    def _source(self, where: str, topic: str, key: Any, value: Any, timestamp: Any) -> SourceNode:
        if not isinstance(topic, str) or not topic:
            raise BuildError(f"{where}: the topic is {topic!r}; give a name that is not empty")
        known = self.topology.sources.get(topic)
        if known is not None:
            if known.internal:
                raise BuildError(f"{where}: {topic!r} is a repartition topic of this topology; give the stream itself")
            for part, first, now in [
                ("key", known.key, key),
                ("value", known.value, value),
                ("timestamp", known.timestamp, timestamp),
            ]:
                if now is not None and now != first:
                    raise BuildError(
                        f"{where}: the topology reads {topic!r} already, with {part}={first!r}; a topic is read once, so give {part}={now!r} where it "
                        f"is named first, and leave it out here"
                    )
            return known
        source = SourceNode(self.topology.named(None, "source"), topic, key=key, value=value, timestamp=timestamp)
        self.topology.sources[topic] = self.topology.add(source)
        return source


@dataclass(frozen=True, slots=True)
class TopologyFactory(TaskFactory):
    """Makes tasks of one topology; made by `topology_factory`."""

    topology: Topology = field(default_factory=Topology)
    in_memory: bool = True
    """Repartition topics are in the memory of the task; else their rows leave and come back as rows of topics."""
    globals: Mapping[str, Operator] = field(default_factory=dict)
    """The global tables that somebody else fills, by topic."""
    now_ms: Callable[[], int] = SystemClock().wall_ms
    """The wall clock of processors and lookups."""
    start_coroutine: Callable[[Any], Any] | None = None
    """Runs a coroutine on the actor system's asyncio loop and returns its Future; None: there is no system."""

    def __call__(self, identity: TaskIdentity = TaskIdentity(), disk: DiskStores | None = None) -> TopologyTask:
        """Return a task without state, for the partitions of one number; `disk`: its stores, if they are on disk."""
        metrics = TaskMetrics(f"0_{identity.partition}")
        if self.on_task is not None:
            self.on_task(metrics)
        late: list[LateRecord] | None = [] if self.keep_late else None
        env = TaskEnvironment(self.serdes, metrics, self.on_failure, self.changelog, late)
        outbox = Outbox(InternalQueues() if self.in_memory else None)
        stores = self.stores() if disk is None else disk
        build = Build(
            self.topology,
            env,
            stores,
            outbox,
            partition=identity.partition,
            now_ms=self.now_ms,
            start_coroutine=self.start_coroutine,
        )
        build.globals = self.globals
        return TopologyTask(build, env, outbox, identity, self.blueprint.idle_after_ms, disk)

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(topic for topic, source in self.topology.sources.items() if source.partitioned)

    @property
    def sub_topologies(self) -> list[TaskFactory]:
        if self.in_memory:
            return [self]
        return [replace(self, topology=sub_topology) for sub_topology in sub_topologies_of(self.topology)]

    def keeps_state(self, sub_topology: Topology) -> bool:
        """True if a step of a sub-topology keeps a state, or has schedules."""
        return bool(replace(self, topology=sub_topology)().stores) or any(
            node.keeps_time for node in sub_topology.nodes
        )

    @property
    def keeps_time(self) -> bool:
        """Whether the tasks have processors, which may be called by the wall clock."""
        return any(node.keeps_time for node in self.topology.nodes)

    def in_run(self, now_ms: Callable[[], int], start_coroutine: Callable[[Any], Any]) -> TopologyFactory:
        return replace(self, now_ms=now_ms, start_coroutine=start_coroutine)

    @property
    def rows_together(self) -> int:
        return max((ROWS_FOR_A_CALL * node.most_calls for node in self._lookups), default=1)

    @property
    def _lookups(self) -> list[LookupNode]:
        return [node for node in self.topology.nodes if isinstance(node, LookupNode)]


def topology_factory(
    topology: Topology, *, idle_after_ms: int | None = None, intake: Intake | None = None, **options: Any
) -> TopologyFactory:
    """Return the factory of tasks for a topology; `options` are TopologyFactory's fields."""
    blueprint = Blueprint((), 0, idle_after_ms, Intake() if intake is None else intake)
    if topology.late is not None:
        options.setdefault("keep_late", True)
    return TopologyFactory(blueprint, topology=topology, **options)
