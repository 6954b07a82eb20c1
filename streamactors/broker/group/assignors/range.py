"""The assignor `range`: of each topic, every member has one run of partitions, in the order of their instance ids and member ids.

Owner: the coordinator of consumer groups; pure. Members with the same place get the same partitions of topics with the same number of
partitions, so that they can be joined. Source: KIP-848, Apache Kafka's RangeAssignor."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from streamactors.broker.group.assignors.group_spec import AssignorFailed, GroupSpec, Partitions, SpecMember
from streamactors.broker.group.assignors.hash_order import HashOrdered, id_hash, text_order


class _Topic:
    """What is left of a topic."""

    __slots__ = ("count", "extra", "next", "quota")

    def __init__(self, count: int, subscribers: int) -> None:
        self.count = count
        self.quota, self.extra = divmod(count, subscribers)
        self.next = 0

    def take(self) -> range:
        """Return the run of the next member."""
        size = self.quota + (self.extra > 0)
        self.extra -= self.extra > 0
        taken = range(self.next, min(self.next + size, self.count))
        self.next = taken.stop
        return taken


def assign_range(spec: GroupSpec) -> Mapping[str, Partitions]:
    """Return the assignment of each member. Raises AssignorFailed."""
    members = sorted(spec.members, key=_place)
    if spec.same_topics:
        # Apache Kafka asks the first member only. A newcomer without topics, which does not change the group's epoch, may be it.
        members = [member._replace(topics=members[0].topics) for member in members]
    subscribers: dict[uuid.UUID, int] = {}
    for member in members:
        for topic in member.topics:
            subscribers[topic] = subscribers.get(topic, 0) + 1
    topics: dict[uuid.UUID, _Topic] = {}
    for topic, number in subscribers.items():
        count = spec.partition_count(topic)
        if count < 0:
            raise AssignorFailed("Member is subscribed to a non-existent topic")
        topics[topic] = _Topic(count, number)
    result: dict[str, Partitions] = {}
    for member in members:
        runs = {topic: topics[topic].take() for topic in member.topics}
        size = len(member.topics) if spec.same_topics else max(member.named, len(member.topics))
        order = HashOrdered(id_hash, [t for t, run in runs.items() if run], capacity=int(size / 0.75 + 1))
        result[member.member_id] = {topic: tuple(runs[topic]) for topic in order}
    return result


def _place(member: SpecMember) -> tuple[bool, bytes]:
    """Return the key of a member's place: static members come first, by their instance ids."""
    if member.instance_id is not None:
        return False, text_order(member.instance_id)
    return True, text_order(member.member_id)
