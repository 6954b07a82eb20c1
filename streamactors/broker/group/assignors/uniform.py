"""The assignor `uniform` where all members subscribe to the same topics: every member has the same number of partitions, give or take one.

Owner: the coordinator of consumer groups; pure. A member keeps what it has, up to its quota. Source: KIP-848, Apache Kafka's
UniformHomogeneousAssignmentBuilder."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from streamactors.broker.group.assignors.group_spec import (
    AssignorFailed,
    Draft,
    GroupSpec,
    Partitions,
    SpecMember,
    partitions_in_hash_order,
)
from streamactors.broker.group.assignors.hash_order import HashOrdered, id_hash

_Free = list[tuple[uuid.UUID, int]]


def assign_uniform(spec: GroupSpec) -> Mapping[str, Partitions]:
    """Return the assignment of each member. Raises AssignorFailed."""
    topics = HashOrdered.copy_of(id_hash, spec.members[0].topics)
    if not topics:
        return {}
    owned = {(topic, p) for member in spec.members for topic, held in member.target.items() for p in held}
    free: _Free = []
    total = 0
    for topic in topics:
        count = spec.count(topic)
        free += [(topic, partition) for partition in range(count) if (topic, partition) not in owned]
        total += count
    least, extra = divmod(total, len(spec.members))
    result: dict[str, Partitions] = {}
    unfilled: list[tuple[SpecMember, Draft | None, int]] = []
    for at, member in enumerate(spec.members):
        quota = least + (extra > 0)
        has_extra = extra > 0
        draft, quota = _keep(member, topics, quota, free)
        # The last members take the extra partitions that nobody kept.
        if quota > 0 and has_extra and len(spec.members) - at > extra:
            quota -= 1
            has_extra = False
        if quota > 0:
            unfilled.append((member, draft, quota))
        extra -= has_extra
        result[member.member_id] = member.target if draft is None else draft.partitions()
    given = 0
    for member, draft, quota in unfilled:
        taken = free[given : given + quota]
        given += len(taken)
        filled = Draft(member.target) if draft is None else draft
        for topic, partition in taken:
            filled.add(topic, partition)
        result[member.member_id] = filled.partitions()
    if given < len(free):
        raise AssignorFailed("Partitions were left unassigned")
    return result


def _keep(member: SpecMember, topics: HashOrdered[uuid.UUID], quota: int, free: _Free) -> tuple[Draft | None, int]:
    """Return the assignment without what is above the quota, None if the member keeps all of it, and the rest of the quota."""
    draft: Draft | None = None
    for topic, partitions in partitions_in_hash_order(member.target):
        if topic not in topics:
            draft = draft or Draft(member.target)
            draft.remove_topic(topic)
        elif len(partitions) <= quota:
            quota -= len(partitions)
        else:
            for partition in partitions[quota:]:
                draft = draft or Draft(member.target)
                draft.remove(topic, partition)
                free.append((topic, partition))
            quota = 0
    return draft, quota
