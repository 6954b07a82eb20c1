"""The assignor `simple` of share groups: each partition has enough members, each member about as many partitions as the others. Pure.

Rules: Apache Kafka's SimpleAssignor. With more members than partitions, members share partitions. What a member has, it keeps as far as the
counts allow. Which member gets which partition follows here from the order of member ids, topics and partitions; in Apache Kafka from the order of
Java's hash tables. The counts are the same."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

from streamactors.broker.group.share.share_group import NOTHING, Partitions


class Place(NamedTuple):
    """A partition that may be assigned."""

    topic_id: uuid.UUID
    partition: int


class Subscriber(NamedTuple):
    """A member: the topics that it wants, and what it has."""

    topic_ids: frozenset[uuid.UUID]
    assigned: Partitions = NOTHING


def assign(members: Mapping[str, Subscriber], assignable: Partitions) -> dict[str, Partitions]:
    """Return the target assignment of each member. `assignable` are the partitions whose share partitions are initialised."""
    order = sorted(members)
    wanted = {members[each].topic_ids for each in order}
    found: dict[str, set[Place]] = {each: set() for each in order}
    if len(wanted) == 1:
        _spread(order, members, _places(next(iter(wanted)), assignable), found)
    else:
        for topic_id in sorted(frozenset().union(*wanted) if wanted else ()):
            subscribers = [each for each in order if topic_id in members[each].topic_ids]
            _spread(subscribers, members, _places([topic_id], assignable), found)
    return {each: _by_topic(places) for each, places in found.items()}


def _places(topic_ids: Iterable[uuid.UUID], assignable: Partitions) -> list[Place]:
    return [Place(topic_id, each) for topic_id in sorted(topic_ids) for each in sorted(assignable.get(topic_id, ()))]


def _spread(
    order: Sequence[str], members: Mapping[str, Subscriber], places: Sequence[Place], found: dict[str, set[Place]]
) -> None:
    """Give `places` to members, who keep what they have of them."""
    if not places or not order:
        return
    sharing = -(-len(order) // len(places))  # members of each partition
    exact = sharing * len(places) / len(order)
    limit = {each: ceil(exact * (at + 1)) - ceil(exact * at) for at, each in enumerate(order)}
    owners: dict[Place, set[str]] = {place: set() for place in places}
    counts = dict.fromkeys(order, 0)
    for each in order:
        for place in places:
            kept = place.partition in members[each].assigned.get(place.topic_id, ())
            if kept and counts[each] < limit[each] and len(owners[place]) < sharing:
                owners[place].add(each)
                counts[each] += 1
    _fill(order, limit, counts, owners, sharing)
    for place, names in owners.items():
        for each in names:
            found[each].add(place)


def _fill(
    order: Sequence[str],
    limit: Mapping[str, int],
    counts: dict[str, int],
    owners: dict[Place, set[str]],
    sharing: int,
) -> None:
    unfilled = [each for each in order if counts[each] < limit[each]]
    at = 0
    for names in owners.values():
        skipped = 0
        while len(names) < sharing and unfilled and skipped < len(unfilled):
            at %= len(unfilled)
            each = unfilled[at]
            if each in names:
                at, skipped = at + 1, skipped + 1
                continue
            names.add(each)
            counts[each] += 1
            skipped = 0
            if counts[each] >= limit[each]:
                del unfilled[at]
            else:
                at += 1


def _by_topic(places: Iterable[Place]) -> Partitions:
    topics: dict[uuid.UUID, set[int]] = {}
    for topic_id, partition in places:
        topics.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
