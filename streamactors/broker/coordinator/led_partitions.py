"""The coordinators of an internal topic: one for each of its partitions that this broker leads.

Owner: the group or the transaction component, on the data plane's thread. It follows the metadata: a partition led from here
gets a coordinator, one that went elsewhere or away loses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Generic, TypeVar

from streamactors.broker.coordinator.partitioning import partition_for

if TYPE_CHECKING:
    from streamactors.broker.controller.delta import ImageDelta
    from streamactors.broker.node import Node

C = TypeVar("C")


class LedPartitions(Generic[C]):
    """The coordinators here, by partition."""

    def __init__(
        self, node: Node, topic: str, elected: Callable[[int, int], C], resigned: Callable[[C], object]
    ) -> None:
        self._node = node
        self._topic = topic
        self._elected = elected
        self._resigned = resigned
        self._coordinators: dict[int, C] = {}
        self.partitions = 0  # of the whole topic; 0 while it does not exist

    def start(self) -> None:
        """Make the coordinators of what is led now, and follow every change from here on."""
        self._node.controller.subscribe(self._changed)
        self._follow()

    def stop(self) -> None:
        """End every coordinator."""
        self.partitions = 0
        for index in tuple(self._coordinators):
            self._resigned(self._coordinators.pop(index))

    def index_of(self, key: str) -> int:
        """Return the partition a group id or transactional id belongs to, -1 while the topic does not exist."""
        return partition_for(key, self.partitions) if self.partitions else -1

    def of(self, key: str) -> C | None:
        """Return the coordinator of a group id or transactional id if it is here."""
        return self._coordinators.get(self.index_of(key))

    def get(self, index: int) -> C | None:
        """Return the coordinator of a partition if it is here."""
        return self._coordinators.get(index)

    def __iter__(self) -> Iterator[C]:
        return iter(tuple(self._coordinators.values()))

    def _changed(self, delta: ImageDelta) -> None:
        if any(topic.name == self._topic for topic in (*delta.created, *delta.changed, *delta.deleted)):
            self._follow()

    def _follow(self) -> None:
        topic = self._node.controller.image.topics.get(self._topic)
        partitions = () if topic is None else topic.partitions
        self.partitions = len(partitions)
        led = {each.partition: each.leader_epoch for each in partitions if each.leader == self._node.node_id}
        for index in [index for index in self._coordinators if index not in led]:
            self._resigned(self._coordinators.pop(index))
        for index, leader_epoch in led.items():
            if index not in self._coordinators:
                self._coordinators[index] = self._elected(index, leader_epoch)
