"""TaskFactory: makes the tasks of one blueprint.

Owner: the stage or test driver that runs windows. The factory is immutable and may be shared; each task has its own
state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from streamactors.collector import collector_paused
from streamactors.errors import BuildError
from streamactors.windows.definitions.blueprint import AggregateStep, Blueprint, ToTableStep, changelog_topic
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.operators.chain import Chain
from streamactors.windows.operators.operator import TaskEnvironment
from streamactors.windows.operators.window_task import WindowTask
from streamactors.windows.record import LateRecord
from streamactors.windows.state.disk.disk_stores import DiskStores
from streamactors.windows.state.serdes import Serdes
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.state.stores import LayoutOfStores, MemoryStores, Stores


@dataclass(frozen=True, slots=True)
class TaskFactory:
    """Makes tasks of one blueprint."""

    blueprint: Blueprint
    serdes: Serdes = field(default_factory=Serdes)
    """The bytes of the stream's keys and values."""
    changelog: bool = False
    """Track changes, so that `WindowTask.changes` returns them."""
    keep_late: bool = False
    """Keep late rows for `WindowTask.take_late`."""
    detailed_metrics: bool = False
    """Measure suppress buffers at every change."""
    on_failure: Callable[[OperatorFailed], bool] | None = None
    """Called when user code raised. It returns True if the row is taken care of and is to be skipped."""
    on_task: Callable[[TaskMetrics], None] | None = None
    """Called with the metrics of each new task."""
    stores: Callable[[], Stores] = MemoryStores
    """Makes the stores of one task."""

    def __call__(self, identity: TaskIdentity = TaskIdentity(), disk: DiskStores | None = None) -> WindowTask:
        """Return a task without state, for one partition; `disk`: its stores, if they are on disk."""
        metrics = TaskMetrics(f"0_{identity.partition}")
        if self.on_task is not None:
            self.on_task(metrics)
        late: list[LateRecord] | None = [] if self.keep_late else None
        env = TaskEnvironment(self.serdes, metrics, self.on_failure, self.changelog, late)
        stores = self.stores() if disk is None else disk
        chain = Chain(self.blueprint.steps, env, stores, self.detailed_metrics)
        return WindowTask(chain.operators, env, identity, self.blueprint.idle_after_ms, chain.buffers, disk)

    def restored(self, identity: TaskIdentity, changes: Iterable[Change], disk: DiskStores | None = None) -> WindowTask:
        """Return a task with the state of these changelog entries, or of its disk. Raises RestoreError if it is another task's."""
        task = self(identity, disk)
        with collector_paused():
            task.restore(changes)
        return task

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose rows the tasks take; empty where a task takes the rows of any topic."""
        return frozenset()

    @property
    def sub_topologies(self) -> list[TaskFactory]:
        """The factories of the sub-topologies, whose tasks are separate; itself if there is one."""
        return [self]

    @property
    def keeps_time(self) -> bool:
        """Whether the tasks are called by the wall clock."""
        return False

    def in_run(self, now_ms: Callable[[], int], start_coroutine: Callable[[Any], Any]) -> TaskFactory:
        """Return the factory for a run, with the clock and the asyncio loop of its actor system."""
        return self

    @property
    def rows_together(self) -> int:
        """The number of rows that a task should get at once, if that many are there."""
        return 1

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


def compile(blueprint: Blueprint, **options: Any) -> TaskFactory:
    """Return the factory of tasks for `blueprint`; options are TaskFactory's fields.

    Raises BuildError for a blueprint without a table."""
    if not any(isinstance(step, AggregateStep | ToTableStep) for step in blueprint.steps):
        raise BuildError("a windowed computation needs count, reduce, aggregate or to_table; this one has none of them")
    if blueprint.late is not None:
        options.setdefault("keep_late", True)
    return TaskFactory(blueprint, **options)
