"""Tasks of a streams group: subtopology and partition, as active, standby or warm-up tasks. Immutable.

Owner: the state machine of streams groups. Source: KIP-1071."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

TaskSet = Mapping[str, frozenset[int]]
"""Partitions by subtopology; no subtopology has an empty set."""

TaskEpochs = Mapping[str, Mapping[int, int]]
"""The epoch at which each task was assigned, by subtopology and partition."""

_NONE: Final[Mapping[str, frozenset[int]]] = MappingProxyType({})
_NO_EPOCHS: Final[Mapping[str, Mapping[int, int]]] = MappingProxyType({})


class Tasks(NamedTuple):
    """Tasks that a member should have."""

    active: TaskSet = _NONE
    standby: TaskSet = _NONE
    warmup: TaskSet = _NONE

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)


class OwnedTasks(NamedTuple):
    """Tasks that a member has, the active ones with the epoch of their assignment."""

    active: TaskEpochs = _NO_EPOCHS
    standby: TaskSet = _NONE
    warmup: TaskSet = _NONE

    @property
    def is_empty(self) -> bool:
        """Whether there is no task."""
        return not (self.active or self.standby or self.warmup)

    @property
    def tasks(self) -> Tasks:
        """The tasks without their epochs."""
        return Tasks({name: frozenset(each) for name, each in self.active.items()}, self.standby, self.warmup)

    def merged(self, other: OwnedTasks) -> OwnedTasks:
        """Return the tasks of both."""
        active = {name: dict(each) for name, each in self.active.items()}
        for name, epochs in other.active.items():
            active.setdefault(name, {}).update(epochs)
        return OwnedTasks(active, merge(self.standby, other.standby), merge(self.warmup, other.warmup))


def merge(one: TaskSet, other: TaskSet) -> TaskSet:
    """Return the tasks of both sets."""
    names = dict.fromkeys((*one, *other))
    return {name: one.get(name, frozenset()) | other.get(name, frozenset()) for name in names}


def overlap(one: Tasks, other: OwnedTasks) -> bool:
    """Whether a task is in both, in the same role."""
    pairs = ((one.active, other.tasks.active), (one.standby, other.standby), (one.warmup, other.warmup))
    return any(
        not mine.get(name, frozenset()).isdisjoint(each) for mine, theirs in pairs for name, each in theirs.items()
    )


def each_task(tasks: TaskSet) -> Iterator[tuple[str, int]]:
    """Yield (subtopology, partition)."""
    return ((name, partition) for name, partitions in tasks.items() for partition in partitions)


NO_TASKS: Final = Tasks()
NOTHING_OWNED: Final = OwnedTasks()
