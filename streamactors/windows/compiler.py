"""TaskFactory: a blueprint with everything a task of it needs.

Owner: whoever runs windows; the factory is immutable and may be shared, every task it makes has state of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from streamactors.errors import BuildError
from streamactors.windows.blueprint import (
    AggregateStep,
    Blueprint,
    ToTableStep,
    changelog_topic,
)
from streamactors.windows.build import Build
from streamactors.windows.changelog import Change, TaskIdentity
from streamactors.windows.codec import Serdes
from streamactors.windows.errors import OperatorFailed
from streamactors.windows.metrics import TaskMetrics
from streamactors.windows.stores import MemoryStores, Stores
from streamactors.windows.task import WindowTask


@dataclass(frozen=True, slots=True)
class TaskFactory:
    """Makes tasks of one blueprint.

    `serdes`: bytes of the stream's keys and values. `changelog`: keep track of changes. `keep_late`: keep refused rows
    for `take_late`. `detailed_metrics`: record buffer sizes at every change. `on_failure`: asked when user code raised;
    True: the row is taken care of and skipped. `on_task`: told of every new task's metrics."""

    blueprint: Blueprint
    serdes: Serdes = field(default_factory=Serdes)
    changelog: bool = False
    keep_late: bool = False
    detailed_metrics: bool = False
    on_failure: Callable[[OperatorFailed], bool] | None = None
    on_task: Callable[[TaskMetrics], None] | None = None
    stores: Callable[[], Stores] = MemoryStores

    def __call__(self, identity: TaskIdentity = TaskIdentity()) -> WindowTask:
        """A task without state, for one partition."""
        return Build(self, identity).task()

    def restored(self, identity: TaskIdentity, changes: Iterable[Change]) -> WindowTask:
        """A task with the state of these changelog entries. Raises RestoreError if they are not its own."""
        task = self(identity)
        task.restore(changes)
        return task

    def changelog_topics(self, application: str) -> dict[str, str]:
        """Store name -> topic that keeps its changes, for the stores that tasks really have."""
        return {store: changelog_topic(application, store) for store in self().stores}


def compile(blueprint: Blueprint, **options: Any) -> TaskFactory:
    """Return the factory of tasks for `blueprint`; options are TaskFactory's fields.

    Raises BuildError for a blueprint that leads nowhere."""
    if not any(isinstance(step, AggregateStep | ToTableStep) for step in blueprint.steps):
        raise BuildError("a windowed computation needs count, reduce, aggregate or to_table; this one has none of them")
    if blueprint.late is not None:
        options.setdefault("keep_late", True)
    return TaskFactory(blueprint, **options)
