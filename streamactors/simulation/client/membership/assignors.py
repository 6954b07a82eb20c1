"""The assignors of a classic group's leader: range, roundrobin and cooperative-sticky.

Owner: the classic member. Pure. Each member gets the partitions that librdkafka gives it, as far as the comparison of random histories shows: sticky groups whose members
read different topics are balanced in fewer rounds than librdkafka's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

Key = tuple[str, int]


class Candidate(NamedTuple):
    """A member, as the leader sees it. `owned` counts if `generation` is the newest that any member names."""

    member_id: str
    instance_id: str | None
    topics: frozenset[str]
    owned: Sequence[Key] = ()
    generation: int = -1

    @property
    def order(self) -> str:
        """The id that members are sorted by."""
        return self.member_id if self.instance_id is None else self.instance_id


Assigned = dict[str, list[Key]]
Assignor = Callable[[Sequence[Candidate], Mapping[str, int]], Assigned]


def _in_order(members: Sequence[Candidate]) -> list[Candidate]:
    return sorted(members, key=lambda each: each.order)


def assign_range(members: Sequence[Candidate], counts: Mapping[str, int]) -> Assigned:
    """Give each member of a topic a range of its partitions."""
    found: Assigned = {each.member_id: [] for each in members}
    for topic in sorted(counts):
        readers = [each for each in _in_order(members) if topic in each.topics]
        if not readers:
            continue
        share, extra = divmod(counts[topic], len(readers))
        at = 0
        for number, reader in enumerate(readers):
            size = share + (number < extra)
            found[reader.member_id] += [(topic, partition) for partition in range(at, at + size)]
            at += size
    return found


def assign_roundrobin(members: Sequence[Candidate], counts: Mapping[str, int]) -> Assigned:
    """Deal all partitions out, one after the other."""
    found: Assigned = {each.member_id: [] for each in members}
    ordered = _in_order(members)
    turn = -1
    for topic in sorted(counts):
        if not any(topic in each.topics for each in ordered):
            continue
        for partition in range(counts[topic]):
            turn = (turn + 1) % len(ordered)
            while topic not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            found[ordered[turn].member_id].append((topic, partition))
    return found


def assign_sticky(members: Sequence[Candidate], counts: Mapping[str, int]) -> Assigned:
    """Balance with as few moves as possible; a partition that another member still has is given to nobody yet."""
    ordered = _in_order(members)
    owner = _owners(ordered, counts)
    found: Assigned = {each.member_id: [] for each in ordered}
    for key in sorted(owner):
        found[owner[key]].append(key)
    free = [(t, p) for t in sorted(counts) for p in range(counts[t]) if (t, p) not in owner]
    for key in free:
        readers = [each.member_id for each in ordered if key[0] in each.topics]
        if readers:
            found[min(readers, key=lambda each: len(found[each]))].append(key)
    _balance(ordered, found)
    return {member: sorted(key for key in keys if owner.get(key, member) == member) for member, keys in found.items()}


def _owners(members: Sequence[Candidate], counts: Mapping[str, int]) -> dict[Key, str]:
    """Return who has each partition. What a member with an older generation names was given to another since."""
    newest: dict[Key, int] = {}
    owner: dict[Key, str] = {}
    for each in members:
        for key in each.owned:
            known = key[0] in each.topics and key[1] < counts.get(key[0], 0)
            if known and each.generation > newest.get(key, -2):
                newest[key], owner[key] = each.generation, each.member_id
    return owner


def _balance(members: Sequence[Candidate], found: Assigned) -> None:
    """Move partitions from members that have more to those that have fewer, in the order of `_movable`, as long as that balances."""
    topics = {each.member_id: each.topics for each in members}
    moved = True
    while moved:
        moved = False
        for key in _movable(found):
            giver = next(member for member, keys in found.items() if key in keys)
            takers = [each for each in found if key[0] in topics[each] and len(found[each]) + 1 < len(found[giver])]
            if takers:
                taker = min(takers, key=lambda each: len(found[each]))
                found[giver].remove(key)
                found[taker].append(key)
                moved = True


def _movable(found: Assigned) -> list[Key]:
    """Return all partitions in the order in which they may move: always the first of the member that has most left, the last one of equals."""
    left = {member: sorted(keys) for member, keys in found.items()}
    order = []
    while any(left.values()):
        longest = max(map(len, left.values()))
        member = [each for each, keys in left.items() if len(keys) == longest][-1]
        order.append(left[member].pop(0))
    return order


ASSIGNORS: Final[Mapping[str, Assignor]] = {
    "range": assign_range,
    "roundrobin": assign_roundrobin,
    "cooperative-sticky": assign_sticky,
}
