"""The placement of the replicas of new partitions. Pure.

Rule: Apache Kafka's striped placement without racks. Leaders rotate over the brokers from a start position, and in every round
the followers shift by one more, so that the followers of one leader's partitions are spread over all other brokers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def over_racks(brokers: Sequence[int], racks: Mapping[int, str | None]) -> list[int]:
    """Return the brokers so that neighbours are in different racks as far as possible: the first of each rack, then the second.

    Striping over this order spreads the replicas of a partition over the racks, if the racks are of one size."""
    by_rack: dict[str | None, list[int]] = {}
    for broker in brokers:
        by_rack.setdefault(racks.get(broker), []).append(broker)
    longest = max(map(len, by_rack.values()), default=0)
    return [members[turn] for turn in range(longest) for members in by_rack.values() if turn < len(members)]


def place(brokers: Sequence[int], partitions: int, replicas: int, start: int) -> list[tuple[int, ...]]:
    """Return the replicas of each partition, leader first; `replicas` is at most the number of brokers."""
    count = len(brokers)
    placed = []
    for partition in range(partitions):
        first = (start + partition) % count
        shift = partition // count
        followers = [brokers[(first + 1 + (shift + replica) % (count - 1)) % count] for replica in range(replicas - 1)]
        placed.append((brokers[first], *followers))
    return placed
