"""The state of all tasks of a stage: one StoredTasks for each sub-topology.

Owner: the stage's changelog, as for StoredTasks. TaskIds names the tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from streamactors.kafka.producer_record import ProducerRecord
from streamactors.kafka.state.changelogs.stored_tasks import Cut, KeptState, StoredTasks
from streamactors.kafka.subscriptions import TopicPartition
from streamactors.windows.operators.task_ids import TaskIds, partition_of, sub_topology_of
from streamactors.windows.state.changelogs import StandbyCopy
from streamactors.windows.topology.window_task import WindowTask

CutOfStage = Mapping[int, Cut]
"""The cut of each sub-topology that has entries, by its number."""


class SubTopologyStates:
    """The state of all tasks of a stage, one StoredTasks per sub-topology. `kept`: the state of the whole stage."""

    def __init__(self, kept: KeptState) -> None:
        sub_topologies = kept.tasks.sub_topologies
        self._ids = TaskIds(sub_topologies)
        self._sub_topology_of: dict[str, int] = {}  # by changelog topic
        self._states: list[StoredTasks] = []
        for number, tasks in enumerate(sub_topologies):
            topics = {store: kept.topics[store] for store in tasks.changelog_topics(kept.application)}
            self._sub_topology_of |= dict.fromkeys(topics.values(), number)
            self._states.append(
                StoredTasks(replace(kept, topics=topics, tasks=tasks, folder=kept.folder if topics else None))
            )

    def restore(self, partitions: Sequence[TopicPartition]) -> dict[Any, WindowTask]:
        """Read the entries of these partitions and return their tasks. Raises RestoreError, StateError, KafkaError."""
        names: dict[int, dict[int, Any]] = defaultdict(dict)
        inputs: dict[int, list[TopicPartition]] = defaultdict(list)
        for key in partitions:
            task = self._ids.of_input(key)
            names[sub_topology_of(task)][key.partition] = task
            inputs[sub_topology_of(task)].append(key)
        return {
            names[sub_topology][number]: task
            for sub_topology, keys in inputs.items()
            for number, task in self._states[sub_topology].restore(keys).items()
        }

    @property
    def has_standbys(self) -> bool:
        """True if `follow` must be called repeatedly."""
        return any(state.has_standbys for state in self._states)

    def follow(self) -> None:
        """Bring the copies of tasks of other instances up to date. Raises StateError."""
        for state in self._states:
            if state.has_standbys:
                state.follow()

    def copies(self) -> list[StandbyCopy] | None:
        """Return the standby copies, to be read; None if this instance keeps none. Raises StateError."""
        if not self.has_standbys:
            return None
        return [copy for state in self._states for copy in state.copies()]

    def cancel(self) -> None:
        """End the current `restore`; any thread."""
        for state in self._states:
            state.cancel()

    @property
    def on_disk(self) -> bool:
        """True if there is a disk to write."""
        return any(state.on_disk for state in self._states)

    def cut(self, records: Sequence[ProducerRecord], tasks: Iterable[Any]) -> CutOfStage:
        """Return a cut of these entries of these tasks, which are about to be sent. On the thread that sends them."""
        if len(self._states) == 1:
            return {0: self._states[0].cut(records, list(tasks))}
        numbers: dict[int, list[int]] = defaultdict(list)
        entries: dict[int, list[ProducerRecord]] = defaultdict(list)
        for task in tasks:
            numbers[sub_topology_of(task)].append(partition_of(task))
        for record in records:
            entries[self._sub_topology_of[record.topic]].append(record)
        return {at: self._states[at].cut(entries[at], own) for at, own in numbers.items()}

    def committed(self, cuts: Sequence[CutOfStage]) -> None:
        """The cuts of a transaction are committed: write them. Raises StateError."""
        for at, state in enumerate(self._states):
            state.committed([cut[at] for cut in cuts if at in cut])

    def acknowledged(self, cut: CutOfStage, ends: Mapping[TopicPartition, int]) -> None:
        """The entries of a cut are in the changelog, up to these ends: write them. Raises StateError."""
        for at, own in cut.items():
            self._states[at].acknowledged(own, ends)

    def revoked(self, task: Any) -> None:
        """The task has left this instance: close its database, because the next owner may be in this process."""
        self._states[sub_topology_of(task)].revoked(partition_of(task))

    def close(self) -> None:
        """The stage has stopped. Raises StateError if a database cannot be closed; the folder closes those that are left."""
        for state in self._states:
            state.close()
