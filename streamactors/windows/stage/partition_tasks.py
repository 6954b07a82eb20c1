"""The tasks of one windowed stage: one per input partition, each with its own state and its own time.

Owner: the stage, one thread at a time; pure. A row belongs to the partition of its context. A stream without contexts
(not from Kafka) is one task; one that has them on some rows only is an error, because those rows would land in another
partition's time. `assigned` makes a task (the first row does, in a stream without assignments). `revoked` drops a task and
flushes nothing: the next owner of the partition restores its state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from streamactors.windows.errors import InvalidRecord
from streamactors.windows.operators.task_ids import ALONE, TaskIds, partition_of, sub_topology_of
from streamactors.windows.record import LateRecord
from streamactors.windows.state.store_log import Change, TaskIdentity
from streamactors.windows.topology.task_factory import TaskFactory
from streamactors.windows.topology.window_task import WindowTask


class PartitionTasks:
    """`application` and `partitions` name the changelog's owner, as in TaskIdentity."""

    def __init__(self, factory: TaskFactory, application: str = "", partitions: int = 1) -> None:
        self._factory = factory
        self._sub_topologies = factory.sub_topologies
        self._task_of = TaskIds(self._sub_topologies).of_row
        self._application = application
        self._partitions = partitions
        self._tasks: dict[Any, WindowTask] = {}
        self._assigns = False
        self._took_rows: set[Any] = set()

    @property
    def factory(self) -> TaskFactory:
        """The factory of the tasks."""
        return self._factory

    @property
    def tasks(self) -> dict[Any, WindowTask]:
        """The tasks by name, see TaskIds."""
        return dict(self._tasks)

    def assigned(self, partition: Any, changes: Iterable[Change] = ()) -> WindowTask:
        """A partition was assigned: make its task from its changelog. Raises RestoreError."""
        task = self._sub_topologies[sub_topology_of(partition)].restored(self._identity(partition), changes)
        self.install(partition, task)
        return task

    def install(self, partition: Any, task: WindowTask) -> None:
        """A partition was assigned, and its task has been restored already."""
        self._assigns = True
        self._check_keys(partition)
        self._tasks[partition] = task

    def revoked(self, partition: Any) -> bool:
        """A partition was revoked: close and drop its task, without results. Return True if the task had state of its rows, which is dropped."""
        task = self._tasks.pop(partition, None)
        took_rows = partition in self._took_rows
        self._took_rows.discard(partition)
        if task is not None:
            task.close()
        return took_rows and task is not None and bool(task.stores)

    def process_into(self, rows: Sequence[Any], out: list[Any]) -> None:
        """Append the results of `rows` to `out`, in order. Raises as WindowTask.process_into, and InvalidRecord for a row
        without context among rows with one."""
        task_of = self._task_of
        try:
            one_of_each = {row.context[:2]: row for row in rows}.values()  # topic and partition tell the task
        except (AttributeError, TypeError):
            one_of_each = rows  # type: ignore[assignment]  # a row has no context
        partitions = set(map(task_of, one_of_each))
        self._took_rows |= partitions
        if len(partitions) == 1:
            self._task(partitions.pop(), rows[0]).process_into(rows, out)
            return
        for partition, run in groupby(rows, key=task_of):
            part = list(run)
            self._task(partition, part[0]).process_into(part, out)

    def idle(self, partition: Any, silent_ms: int) -> list[Any]:
        """Return the results of the windows that close because the partition has been silent for this long."""
        task = self._tasks.get(partition)
        return [] if task is None else task.idle(silent_ms)

    def end_of_input(self, partition: Any = None) -> list[Any]:
        """Return the results that a partition still holds when its source has ended by itself; None: those of all partitions."""
        tasks = [task for each, task in self._tasks.items() if partition in (None, each)]
        self._took_rows.difference_update([each for each in self._tasks if partition in (None, each)])
        return [result for task in tasks for result in task.end_of_input()]

    @property
    def pressed(self) -> bool:
        """True if the changes since the last cut fill the memory of a task on disk."""
        return any(task.disk is not None and task.disk.pressed for task in self._tasks.values())

    def changes(self, partition: Any) -> list[Change]:
        """The changelog entries of a partition since the last call."""
        return self._tasks[partition].changes()

    def take_late(self) -> list[LateRecord]:
        """The rows that closed windows refused since the last call."""
        return [late for task in self._tasks.values() for late in task.take_late()]

    def _task(self, partition: Any, row: Any) -> WindowTask:
        task = self._tasks.get(partition)
        if task is not None:
            return task
        if partition == ALONE and (self._tasks or self._assigns):
            raise _without_context(row)
        if ALONE in self._tasks:
            raise InvalidRecord(
                f"{row!r} has a context (partition {partition}), the rows before it had none: all rows of a stream "
                "have one, or none has; keep it with record.replace(value=…) instead of making a new Record"
            )
        if self._assigns:
            raise InvalidRecord(
                f"{row!r} belongs to partition {partition}, which is not assigned here (there are: "
                f"{sorted(self._tasks)}); it would have no state"
            )
        self._check_keys(partition)
        task = self._sub_topologies[sub_topology_of(partition)](self._identity(partition))
        self._tasks[partition] = task
        return task

    def _identity(self, task: Any) -> TaskIdentity:
        return TaskIdentity(self._application, max(partition_of(task), 0), self._partitions)

    def _check_keys(self, partition: Any) -> None:
        if self._factory.topology.changes_keys and self._tasks.keys() - {partition}:
            raise InvalidRecord(
                f"key_by on a stream of several partitions ({sorted({*self._tasks, partition})}): rows of one new key lie "
                "in different partitions and would not be counted together; write the stream to a topic by its new key, "
                "read that topic, and use group_by_key()"
            )


def _without_context(row: object) -> InvalidRecord:
    return InvalidRecord(
        f"{row!r} has no context in a stream whose rows have one, so its partition is unknown; "
        "keep it with record.replace(value=…) instead of making a new Record"
    )
