"""Which task a row or an input belongs to.

A stage has one task for each partition number. Where its topology has several parts that only repartition topics connect, each part has
tasks of its own: its topics may have another number of partitions, and the members of a group share them out on their own.

Owner: the stage; pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, Protocol

from streamactors.windows.errors import InvalidRecord

ALONE: Final = -1
"""The task of a stream without partitions."""


class TaskId(NamedTuple):
    """The task of one part of a topology for one partition number."""

    part: int
    partition: int


class Part(Protocol):
    """Makes the tasks of one part."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics whose rows the tasks take."""


class TaskIds:
    """Names tasks. With one part the name of a task is its partition number, else a TaskId."""

    def __init__(self, parts: Sequence[Part] = ()) -> None:
        self._part_of: dict[str, int] = {}
        if len(parts) > 1:
            self._part_of = {topic: at for at, part in enumerate(parts) for topic in part.topics}

    def of_input(self, partition: Any) -> Any:
        """Return the task of a partition as marks name it: Kafka's TopicPartition, or what it is."""
        number = getattr(partition, "partition", partition)
        return TaskId(self._part_of[partition.topic], number) if self._part_of else number

    def of_row(self, row: Any) -> Any:
        """Return the task of a row, ALONE for a row without context. Raises InvalidRecord for a row of an unknown topic."""
        context = getattr(row, "context", None)
        if context is None:
            return ALONE
        if not self._part_of:
            return context.partition
        part = self._part_of.get(context.topic)
        if part is None:
            raise InvalidRecord(
                f"{row!r} comes from the topic {context.topic!r}; this topology reads {sorted(self._part_of)}"
            )
        return TaskId(part, context.partition)


def part_of(task: Any) -> int:
    """Return the number of the part that a task belongs to."""
    return task.part if type(task) is TaskId else 0


def partition_of(task: Any) -> int:
    """Return the partition number of a task."""
    number: int = task.partition if type(task) is TaskId else task
    return number
