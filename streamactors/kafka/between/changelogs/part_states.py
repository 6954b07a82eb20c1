"""The state of all tasks of a stage: of each part of its topology, whose tasks are separate, there is one TaskState.

Owner: the stage's changelog, as TaskState. Tasks are named as TaskIds does."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from streamactors.kafka.between.changelogs.task_state import Cut, TaskState
from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.settings import ConsumerSettings
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.operators.task_ids import TaskIds, part_of, partition_of
from streamactors.windows.operators.window_task import WindowTask
from streamactors.windows.state.changelogs import Tasks
from streamactors.windows.state.disk.folder import StateFolder

CutOfParts = Mapping[int, Cut]
"""The cut of each part that has entries."""


class PartStates:
    """See the module. `topics`: changelog topic by store, of all parts; the rest as for TaskState."""

    def __init__(
        self,
        settings: ConsumerSettings,
        application: str,
        topics: Mapping[str, str],
        tasks: Tasks,
        folder: StateFolder | None,
        *,
        of_run: Callable[[], Iterable[str]],
    ) -> None:
        parts = tasks.parts
        self._ids = TaskIds(parts)
        self._part_of: dict[str, int] = {}  # by changelog topic
        self._states: list[TaskState] = []
        for number, part in enumerate(parts):
            own = {store: topics[store] for store in part.changelog_topics(application)}
            self._part_of |= dict.fromkeys(own.values(), number)
            place = folder if own else None
            self._states.append(TaskState(settings, application, own, part, place, of_run=of_run))

    def restore(self, partitions: Sequence[TopicPartition]) -> dict[Any, WindowTask]:
        """Read the entries of these partitions and return their tasks. Raises RestoreError, StateError, KafkaError."""
        names: dict[int, dict[int, Any]] = defaultdict(dict)
        inputs: dict[int, list[TopicPartition]] = defaultdict(list)
        for key in partitions:
            task = self._ids.of_input(key)
            names[part_of(task)][key.partition] = task
            inputs[part_of(task)].append(key)
        return {
            names[part][number]: task
            for part, keys in inputs.items()
            for number, task in self._states[part].restore(keys).items()
        }

    @property
    def has_standbys(self) -> bool:
        """True if `follow` is to be called again and again."""
        return any(state.has_standbys for state in self._states)

    def follow(self) -> None:
        """Bring the copies of tasks of other instances up to date. Raises StateError."""
        for state in self._states:
            if state.has_standbys:
                state.follow()

    def copies(self) -> list[WindowTask] | None:
        """Return tasks that read the standby copies; None if there are none. Raises StateError."""
        if not self.has_standbys:
            return None
        return [task for state in self._states for task in state.copies()]

    def cancel(self) -> None:
        """End the current `restore`; any thread."""
        for state in self._states:
            state.cancel()

    @property
    def on_disk(self) -> bool:
        """True if there is a disk to write."""
        return any(state.on_disk for state in self._states)

    def cut(self, records: Sequence[ProducerRecord], tasks: Iterable[Any]) -> CutOfParts:
        """Return the cut that has these entries, of these tasks, about to be sent; on the thread that sends them."""
        if len(self._states) == 1:
            return {0: self._states[0].cut(records, list(tasks))}
        numbers: dict[int, list[int]] = defaultdict(list)
        entries: dict[int, list[ProducerRecord]] = defaultdict(list)
        for task in tasks:
            numbers[part_of(task)].append(partition_of(task))
        for record in records:
            entries[self._part_of[record.topic]].append(record)
        return {part: self._states[part].cut(entries[part], own) for part, own in numbers.items()}

    def committed(self, cuts: Sequence[CutOfParts]) -> None:
        """The cuts of a transaction are committed: write them. Raises StateError."""
        for part, state in enumerate(self._states):
            state.committed([cut[part] for cut in cuts if part in cut])

    def acknowledged(self, cut: CutOfParts, ends: Mapping[TopicPartition, int]) -> None:
        """The entries of a cut are in the changelog, up to these ends: write them. Raises StateError."""
        for part, own in cut.items():
            self._states[part].acknowledged(own, ends)

    def revoked(self, task: Any) -> None:
        """A task is ours no more: close its disk, for another owner in this process."""
        self._states[part_of(task)].revoked(partition_of(task))

    def close(self) -> None:
        """The stage has stopped. Raises StateError if a database cannot be closed; the folder closes those that are left."""
        for state in self._states:
            state.close()
