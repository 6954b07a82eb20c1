"""The placement of the replicas of new partitions. Pure.

Rule: Apache Kafka's striped placement. Leaders rotate over the brokers from a start position, and in every round the followers shift by one more, so that
the followers of one leader's partitions are spread over all other brokers. No rack has two replicas of a partition while another one has none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def over_racks(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers so that neighbours are in different racks as far as possible: the first of each rack, then the second.

    Leaders rotate over this order, so that partitions one after the other are led in different racks."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker), []).append(broker)
    longest = max(map(len, by_rack.values()), default=0)
    return [members[turn] for turn in range(longest) for members in by_rack.values() if turn < len(members)]


def place(
    brokers: Sequence[int],
    partitions: int,
    replicas: int,
    start: int,
    racks: Mapping[int, str | None] | None = None,
) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, leader first; `replicas` is at most the number of brokers. Brokers that `racks` does not name share a rack."""
    count = len(brokers)
    placed = []
    for partition in range(partitions):
        first = (start + partition) % count
        shift = partition // count
        others = [brokers[(first + 1 + (shift + turn) % (count - 1)) % count] for turn in range(count - 1)]
        placed.append(_chosen(brokers[first], others, replicas, racks or {}))
    return placed


def _chosen(leader: int, others: Sequence[int], replicas: int, racks: Mapping[int, str | None]) -> tuple[int, ...]:
    """Return the leader and its followers: of those that come first, one from each rack, then a second one from each, and so on."""
    found = [leader]
    left = list(others)
    uses = {racks.get(each): 0 for each in (leader, *others)}
    uses[racks.get(leader)] += 1
    while len(found) < replicas:
        least = min(uses[racks.get(each)] for each in left)
        follower = next(each for each in left if uses[racks.get(each)] == least)
        left.remove(follower)
        found.append(follower)
        uses[racks.get(follower)] += 1
    return tuple(found)
