"""What librdkafka's statistics say about the partitions of a group's topics: which are gone, and which topics have grown.

Owner: the consumer of a stream; its polls deliver the statistics, and it says when partitions were assigned."""

from __future__ import annotations

import json
from typing import Final

from streamactors.kafka.client.statistics import unknown_partitions
from streamactors.kafka.subscriptions import TopicPartition

_PARTITION: Final = '"partition":'


class PartitionWatch:
    """Finds deleted and grown topics in librdkafka's statistics."""

    def __init__(self) -> None:
        self.gone: set[TopicPartition] = set()
        """Assigned partitions that the broker does not know, in two statistics in a row: a broker that starts may not know its topics yet."""
        self.grown: dict[str, int] = {}
        """Topic -> number of partitions, for topics that have grown since the last assignment, in two statistics in a row."""
        self._unknown: set[TopicPartition] = set()
        self._mentioned = -1  # partitions in the last statistics that were parsed
        self._counts: dict[str, int] = {}
        self._assigned: dict[str, int] | None = None  # the counts at the last assignment
        self._growing: set[str] = set()

    def known(self, counts: dict[str, int]) -> None:
        """Take the numbers of partitions that the broker has named before the consumer joins: the first statistics come later."""
        self._counts = counts

    def look(self, text: str) -> None:
        """Read new statistics. They are long, so they are parsed only when they mention another number of partitions."""
        unknown = unknown_partitions(text)
        self.gone = unknown & self._unknown
        self._unknown = unknown
        mentioned = text.count(_PARTITION)
        if mentioned != self._mentioned:
            self._mentioned = mentioned
            self._counts = {**self._counts, **partition_counts(text)}
        before = self._assigned
        if before is None:
            return
        growing = {topic for topic, count in self._counts.items() if count > before.get(topic, count)}
        self.grown = {topic: self._counts[topic] for topic in growing & self._growing}
        self._growing = growing

    def assigned(self) -> None:
        """The group has assigned partitions, with the numbers of partitions that it knows now."""
        self._assigned = dict(self._counts)
        self._growing = set()
        self.grown = {}


def partition_counts(text: str) -> dict[str, int]:
    """Return the number of partitions of each topic in these statistics; -1 is a place for records that have no partition yet."""
    topics = json.loads(text).get("topics", {})
    return {name: sum(number != "-1" for number in topic["partitions"]) for name, topic in topics.items()}
