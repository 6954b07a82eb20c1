"""Which task a row or an input belongs to.

A stage has one task for each partition number. Where its topology has several sub-topologies, each has tasks of its own: its topics may
have another number of partitions, and the members of a group share them out on their own.

Owner: the stage; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from streamactors.windows.errors import InvalidRecord

if TYPE_CHECKING:
    from streamactors.windows.topology.task_factory import TaskFactory

ALONE: Final = -1
"""The task of a stream without partitions."""


class TaskId(NamedTuple):
    """The task of one sub-topology for one partition number."""

    sub_topology: int
    partition: int


class TaskIds:
    """Names tasks. With one sub-topology the name of a task is its partition number, else a TaskId."""

    def __init__(self, sub_topologies: Sequence[TaskFactory] = ()) -> None:
        self._sub_topology_of: dict[str, int] = {}
        if len(sub_topologies) > 1:
            self._sub_topology_of = {topic: at for at, each in enumerate(sub_topologies) for topic in each.topics}

    def of_input(self, partition: Any) -> Any:
        """Return the task of a partition as marks name it: Kafka's TopicPartition, or what it is."""
        number = getattr(partition, "partition", partition)
        return TaskId(self._sub_topology_of[partition.topic], number) if self._sub_topology_of else number

    def of_row(self, row: Any) -> Any:
        """Return the task of a row, ALONE for a row without context. Raises InvalidRecord for a row of an unknown topic."""
        context = getattr(row, "context", None)
        if context is None:
            return ALONE
        if not self._sub_topology_of:
            return context.partition
        sub_topology = self._sub_topology_of.get(context.topic)
        if sub_topology is None:
            raise InvalidRecord(
                f"{row!r} comes from the topic {context.topic!r}; this topology reads {sorted(self._sub_topology_of)}"
            )
        return TaskId(sub_topology, context.partition)


def sub_topology_of(task: Any) -> int:
    """Return the number of the sub-topology that a task belongs to."""
    return task.sub_topology if type(task) is TaskId else 0


def partition_of(task: Any) -> int:
    """Return the partition number of a task."""
    number: int = task.partition if type(task) is TaskId else task
    return number
