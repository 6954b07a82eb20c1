"""TaskFactory: makes the tasks of one topology.

Owner: the stage or test driver that runs the topology. The factory is immutable and may be shared; each task has its own state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from streamactors.clock import SystemClock
from streamactors.collector import collector_paused
from streamactors.windows.definitions.intake import Intake
from streamactors.windows.definitions.names import changelog_topic
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.operator import Operator, TaskEnvironment
from streamactors.windows.operators.windowed.late_counts import LateReport
from streamactors.windows.record import LateRecord
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.state.stores import LayoutOfStores, MemoryStores, Stores
from streamactors.windows.topology.edges import Outbox
from streamactors.windows.topology.model import ANY_TOPIC, Build, Topology
from streamactors.windows.topology.nodes.join_nodes import LookupNode
from streamactors.windows.topology.queues import InternalQueues
from streamactors.windows.topology.sub_topologies import sub_topologies_of
from streamactors.windows.topology.window_task import WindowTask

ROWS_FOR_A_CALL: Final = 4
"""Rows that are taken together for each call that a lookup may have under way; many of their keys have an answer already."""


@dataclass(frozen=True, slots=True)
class TaskFactory:
    """Makes tasks of one topology."""

    topology: Topology
    intake: Intake = field(default_factory=Intake)
    idle_after_ms: int | None = None
    """Silence after which the wall clock moves stream time; None: what the steps of the topology say."""
    serdes: Serdes = field(default_factory=Serdes)
    """The bytes of the stream's keys and values."""
    changelog: bool = False
    """Track changes, so that `WindowTask.changes` returns them."""
    keep_late: bool = False
    """Keep late rows for `WindowTask.take_late`; always where the topology sends them to a sink."""
    detailed_metrics: bool = False
    """Measure suppress buffers at every change."""
    on_failure: Callable[[OperatorFailed], bool] | None = None
    """Called when user code raised. It returns True if the row is taken care of and is to be skipped."""
    on_task: Callable[[TaskMetrics], None] | None = None
    """Called with the metrics of each new task."""
    stores: Callable[[], Stores] = MemoryStores
    """Makes the stores of one task."""
    in_memory: bool = True
    """Repartition topics are in the memory of the task; else their rows leave and come back as rows of topics."""
    globals: Mapping[str, Operator] = field(default_factory=dict)
    """The global tables that are filled from outside the task, by topic."""
    now_ms: Callable[[], int] = SystemClock().wall_ms
    """The wall clock of processors and lookups."""
    late_report: LateReport | None = None
    """Counts the late rows of all tasks that the factory makes; None: each task logs its own."""
    number: int = 0
    """Of the sub-topology."""
    start_coroutine: Callable[[Any], Any] | None = None
    """Runs a coroutine on the actor system's asyncio loop and returns its Future; None: there is no system."""

    def __post_init__(self) -> None:
        if self.idle_after_ms is None:
            object.__setattr__(self, "idle_after_ms", self.topology.idle_after_ms)
        if self.topology.late is not None:
            object.__setattr__(self, "keep_late", True)

    def __call__(self, identity: TaskIdentity = TaskIdentity(), disk: DiskStores | None = None) -> WindowTask:
        """Return a task without state, for the partitions of one number; `disk`: its stores, if they are on disk."""
        metrics = TaskMetrics(f"0_{identity.partition}")
        if self.on_task is not None:
            self.on_task(metrics)
        late: list[LateRecord] | None = [] if self.keep_late else None
        late_counts = None if self.late_report is None else self.late_report.part(self.number)
        build = Build(
            self.topology,
            TaskEnvironment(self.serdes, metrics, self.on_failure, self.changelog, late, late_counts),
            self.stores() if disk is None else disk,
            Outbox(InternalQueues() if self.in_memory else None),
            self.detailed_metrics,
            partition=identity.partition,
            now_ms=self.now_ms,
            start_coroutine=self.start_coroutine,
        )
        build.globals = self.globals
        return WindowTask(build, identity, self.idle_after_ms, disk)

    def restored(self, identity: TaskIdentity, changes: Iterable[Change], disk: DiskStores | None = None) -> WindowTask:
        """Return a task with the state of these changelog entries, or of its disk. Raises RestoreError if it is another task's."""
        task = self(identity, disk)
        with collector_paused():
            task.restore(changes)
        return task

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose rows the tasks take; empty where a task takes the rows of any topic."""
        sources = self.topology.sources
        if ANY_TOPIC in sources:
            return frozenset()
        return frozenset(topic for topic, source in sources.items() if source.partitioned)

    @property
    def sub_topologies(self) -> list[TaskFactory]:
        """The factories of the sub-topologies, whose tasks are separate; itself if there is one."""
        if self.in_memory:
            return [self]
        parts = enumerate(sub_topologies_of(self.topology))
        return [replace(self, topology=sub_topology, number=number) for number, sub_topology in parts]

    def keeps_state(self, sub_topology: Topology) -> bool:
        """True if a step of a sub-topology keeps a state, or has schedules."""
        return bool(replace(self, topology=sub_topology)().stores) or any(
            node.keeps_time for node in sub_topology.nodes
        )

    @property
    def keeps_time(self) -> bool:
        """Whether the tasks have processors, which may be called by the wall clock."""
        return any(node.keeps_time for node in self.topology.nodes)

    def in_run(self, now_ms: Callable[[], int], start_coroutine: Callable[[Any], Any]) -> TaskFactory:
        """Return the factory for a run, with the clock and the asyncio loop of its actor system."""
        return replace(self, now_ms=now_ms, start_coroutine=start_coroutine)

    @property
    def rows_together(self) -> int:
        """The number of rows that a task should get at once, if that many are there."""
        lookups = [node for node in self.topology.nodes if isinstance(node, LookupNode)]
        return max((ROWS_FOR_A_CALL * node.most_calls for node in lookups), default=1)

    @property
    def time_first(self) -> frozenset[str]:
        """The stores whose entries lie on disk by time, then key."""
        layout = LayoutOfStores()
        replace(self, stores=lambda: layout)()
        return frozenset(layout.time_first)

    @property
    def changelog_settings(self) -> Mapping[str, Mapping[str, str]]:
        """The settings of the changelogs that are not just compacted, by store."""
        return self().changelog_settings

    def changelog_topics(self, application: str) -> dict[str, str]:
        """Return the changelog topic of each store that the tasks have, by the store's name."""
        return {store: changelog_topic(application, store) for store in self().stores}
