"""The assignor `uniform` where members subscribe to different topics: as balanced as the subscriptions allow.

Owner: the coordinator of consumer groups; pure. Members keep what they may have. What is free goes to the member with the fewest partitions, topic by topic; then
partitions move from the most to the least loaded subscribers of each topic until nothing moves. Source: KIP-848, Apache Kafka's
UniformHeterogeneousAssignmentBuilder."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import Final

from streamactors.broker.group.assignors.group_spec import Draft, GroupSpec, Partitions, partitions_in_hash_order
from streamactors.broker.group.assignors.hash_order import id_order

_ROUNDS: Final = 16
_NOBODY: Final = -1


def assign_uniform_mixed(spec: GroupSpec) -> Mapping[str, Partitions]:
    """Return the assignment of each member. Raises AssignorFailed."""
    work = _Mixed(spec)
    if not work.subscribers:
        return {}
    work.keep()
    work.give_free()
    work.balance()
    return {
        member.member_id: member.target if draft is None else draft.partitions()
        for member, draft in zip(spec.members, work.drafts, strict=True)
    }


class _Mixed:
    """The assignment in progress. Members are named by their index in the spec."""

    def __init__(self, spec: GroupSpec) -> None:
        self.spec = spec
        self.subscribers: dict[uuid.UUID, list[int]] = {}
        for at, member in enumerate(spec.members):
            for topic in member.topics:
                self.subscribers.setdefault(topic, []).append(at)
        self.owners = {topic: [_NOBODY] * spec.count(topic) for topic in self.subscribers}
        self.loads = [0] * len(spec.members)
        self.drafts: list[Draft | None] = [None] * len(spec.members)

    def keep(self) -> None:
        """Let every member keep the partitions of topics that it subscribes to."""
        for at, member in enumerate(self.spec.members):
            for topic, partitions in partitions_in_hash_order(member.target):
                if topic not in member.topics:
                    self._draft(at).remove_topic(topic)
                    continue
                self.loads[at] += len(partitions)
                for partition in partitions:
                    self.owners[topic][partition] = at

    def give_free(self) -> None:
        """Give the partitions without an owner to the members with the fewest."""
        free = {
            topic: [p for p, owner in enumerate(owners) if owner == _NOBODY] for topic, owners in self.owners.items()
        }
        for topic in self._sorted(topic for topic, partitions in free.items() if partitions):
            balancer = _Balancer(self.loads, self.subscribers[topic])
            for partition in free[topic]:
                self._give(topic, partition, balancer.least_loaded())

    def balance(self) -> None:
        """Move partitions from the most to the least loaded subscribers of a topic, until a whole round moves none."""
        topics = self._sorted(topic for topic, members in self.subscribers.items() if len(members) > 1)
        last_moved = -1
        for _ in range(_ROUNDS):
            for at, topic in enumerate(topics):
                if at == last_moved:
                    return
                if self._balance_topic(topic) or last_moved == -1:
                    last_moved = at

    def _balance_topic(self, topic: uuid.UUID) -> int:
        """Return the number of partitions that moved."""
        balancer = _Balancer(self.loads, self.subscribers[topic])
        if balancer.imbalance <= 1:
            return 0
        owners = self.owners[topic]
        held: dict[int, list[int]] = {}
        for partition, owner in enumerate(owners):
            held.setdefault(owner, []).append(partition)
        moved = 0
        while not balancer.is_balanced:
            most = balancer.most_loaded()
            if most == _NOBODY:
                break
            if not held.get(most):
                balancer.exclude_most_loaded()
                continue
            partition = held[most].pop()
            least = balancer.least_loaded()
            if balancer.is_balanced:
                break
            self._give(topic, partition, least)
            moved += 1
        return moved

    def _give(self, topic: uuid.UUID, partition: int, to: int) -> None:
        before = self.owners[topic][partition]
        if before != _NOBODY:
            self._draft(before).remove(topic, partition)
            self.loads[before] -= 1
        expected = -(-len(self.owners[topic]) // len(self.subscribers[topic]))
        self._draft(to).add(topic, partition, int(expected / 0.75 + 1))
        self.owners[topic][partition] = to
        self.loads[to] += 1

    def _draft(self, at: int) -> Draft:
        found = self.drafts[at]
        if found is None:
            found = self.drafts[at] = Draft(self.spec.members[at].target)
        return found

    def _sorted(self, topics: Iterable[uuid.UUID]) -> list[uuid.UUID]:
        """Return topics with the most partitions per subscriber first: they leave the fewest choices."""

        def key(topic: uuid.UUID) -> tuple[float, int, tuple[int, int]]:
            number = len(self.subscribers[topic])
            return -len(self.owners[topic]) / number, number, id_order(topic)

        return sorted(topics, key=key)


class _Balancer:
    """The subscribers of one topic from the least to the most loaded, as partitions move between the two ends.

    The members of one end that have the same load are a range. It is used up member by member, then it grows by the members with the
    next load, and begins again."""

    def __init__(self, loads: list[int], members: list[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda at: (loads[at], at))
        lowest, highest = loads[self._members[0]], loads[self._members[-1]]
        self.imbalance: Final = highest - lowest
        self._low_end, self._low_load, self._low_next = 0, lowest - 1, 0
        count = len(self._members)
        self._high_start, self._high_end, self._high_load, self._high_next = count, count, highest + 1, count - 1

    @property
    def is_balanced(self) -> bool:
        return self._high_load - self._low_load <= 1

    def least_loaded(self) -> int:
        """Return the member that gets the next partition."""
        if self._low_next >= self._low_end:
            self._low_load += 1
            while self._low_end < len(self._members) and self._load(self._low_end) == self._low_load:
                self._low_end += 1
            self._low_next = 0
        self._low_next += 1
        return self._members[self._low_next - 1]

    def most_loaded(self) -> int:
        """Return the member that gives the next partition, -1 if there is none."""
        if self._high_next < self._high_start:
            if self._high_end <= self._high_start and self._high_start > 0:
                self._high_load = self._load(self._high_start - 1)
            else:
                self._high_load -= 1
            while self._high_start > 0 and self._load(self._high_start - 1) == self._high_load:
                self._high_start -= 1
            self._high_next = self._high_end - 1
        if self._high_next < 0:
            return _NOBODY
        self._high_next -= 1
        return self._members[self._high_next + 1]

    def exclude_most_loaded(self) -> None:
        """Leave out the last member of `most_loaded`: it has no partition of this topic."""
        at, end = self._high_next + 1, self._high_end - 1
        self._members[at], self._members[end] = self._members[end], self._members[at]
        self._high_end -= 1

    def _load(self, at: int) -> int:
        return self._loads[self._members[at]]
