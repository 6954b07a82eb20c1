"""The placement of the replicas of new partitions. Pure.

Rule: Apache Kafka's striped placement without racks. Leaders rotate over the brokers from a start position, and in every round
the followers shift by one more, so that the followers of one leader's partitions are spread over all other brokers.
"""

from __future__ import annotations

from collections.abc import Sequence


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
