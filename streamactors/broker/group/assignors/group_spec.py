"""What an assignor knows of a group.

Owner: the assignors. Pure values. Source: KIP-848, Apache Kafka's GroupSpec."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from streamactors.broker.group.assignors.hash_order import HashOrdered, id_hash, number_hash, text_hash
from streamactors.errors import StreamActorsError

Partitions = Mapping[uuid.UUID, tuple[int, ...]]
"""Partitions by topic id, in the order in which they are stored."""


class AssignorFailed(StreamActorsError):
    """A new target assignment cannot be computed. The group keeps its last one."""


class SpecMember(NamedTuple):
    """A member, the topics that it subscribes to, and its present target assignment."""

    member_id: str
    instance_id: str | None
    topics: Sequence[uuid.UUID]
    target: Partitions
    named: int = 0  # number of topics that it names; some may not exist


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group. The order of `members` is that of Apache Kafka's hash table."""

    members: Sequence[SpecMember]
    same_topics: bool  # whether all members subscribe to the same topics
    partition_count: Callable[[uuid.UUID], int]  # -1: the topic does not exist

    def count(self, topic_id: uuid.UUID) -> int:
        """Return the number of partitions of a topic. Raises AssignorFailed if it does not exist."""
        count = self.partition_count(topic_id)
        if count < 0:
            raise AssignorFailed(
                f"Members are subscribed to topic {topic_id} which doesn't exist in the topic metadata."
            )
        return count


def members_in_hash_order(members: Sequence[SpecMember]) -> list[SpecMember]:
    """Return the members, given in the order of their insertion, as a HashMap iterates them."""
    by_id = {member.member_id: member for member in members}
    return [by_id[member_id] for member_id in HashOrdered(text_hash, by_id)]


class Draft:
    """An assignment of one member that is being changed."""

    __slots__ = ("_order", "_topics")

    def __init__(self, target: Partitions) -> None:
        self._topics = {
            topic: HashOrdered.copy_of(number_hash, owned) for topic, owned in partitions_in_hash_order(target)
        }
        self._order = HashOrdered(id_hash, self._topics, capacity=max(len(self._topics), 1))

    def add(self, topic_id: uuid.UUID, partition: int, capacity: int = 16) -> None:
        """Give the member a partition; `capacity` is that of the table for its partitions of the topic."""
        if topic_id not in self._topics:
            self._topics[topic_id] = HashOrdered(number_hash, capacity=capacity)
            self._order.add_first(topic_id)
        self._topics[topic_id].add(partition)

    def remove(self, topic_id: uuid.UUID, partition: int) -> None:
        """Take a partition from the member."""
        owned = self._topics.get(topic_id)
        if owned is None:
            return
        owned.discard(partition)
        if not owned:
            self.remove_topic(topic_id)

    def remove_topic(self, topic_id: uuid.UUID) -> None:
        """Take all partitions of a topic from the member."""
        self._topics.pop(topic_id, None)
        self._order.discard(topic_id)

    def partitions(self) -> Partitions:
        """Return the assignment, in the order in which Apache Kafka stores it."""
        return {topic_id: tuple(self._topics[topic_id]) for topic_id in self._order}


def partitions_in_hash_order(target: Partitions) -> list[tuple[uuid.UUID, tuple[int, ...]]]:
    """Return a stored assignment as Apache Kafka iterates it after it has read it."""
    return [
        (topic_id, tuple(HashOrdered.copy_of(number_hash, target[topic_id])))
        for topic_id in HashOrdered(id_hash, target)
    ]
