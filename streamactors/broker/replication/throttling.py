"""Throttled replication: how fast followers that are not in sync may copy, so that a move of replicas leaves room for clients.

Owner: `Replicas`, on the data plane. The topic's settings name the throttled replicas, as `partition:broker` or `*`. Each broker has a rate for the
bytes that it sends as a leader, and one for the bytes that it fetches as a follower. Members of the ISR are never throttled. Source: KIP-73;
Apache Kafka's ReplicationQuotaManager."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

from streamactors.broker.config.setting import LONG_MAX
from streamactors.broker.quotas.sampled_rate import SampledRate
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.reading import Reading, WantedTopic

if TYPE_CHECKING:
    from streamactors.broker.runtime import Runtime

WINDOWS: Final = 11
WINDOW_MS: Final = 1_000.0
UNLIMITED: Final = LONG_MAX
OF_LEADERS: Final = "leader.replication.throttled.replicas"
OF_FOLLOWERS: Final = "follower.replication.throttled.replicas"


class Throttle:
    """What this broker has sent to throttled replicas, or fetched for them."""

    def __init__(self, node: Runtime, topic_setting: str) -> None:
        self._node = node
        self._topic_setting = topic_setting
        self._rate = SampledRate(WINDOWS, WINDOW_MS)

    def counts(self, partition: HostedPartition, replica: int) -> bool:
        """Whether a replica of a partition is throttled: it is named, and not in sync."""
        if replica in partition.isr:
            return False
        named = self._node.metadata.image.topic_overrides(partition.topic).get(self._topic_setting, "")
        words = [each.strip() for each in named.split(",")]
        return "*" in words or f"{partition.index}:{replica}" in words

    def is_over(self, limit: int) -> bool:
        """Whether more bytes per second have gone by than the limit."""
        return self._rate.per_second(self._node.clock.now_ms()) > limit

    def record(self, size: int) -> None:
        """Count bytes of a throttled replica."""
        self._rate.record(size, self._node.clock.now_ms())


class Throttles:
    """The two throttles of a broker."""

    def __init__(self, node: Runtime) -> None:
        self._node = node
        self.sent = Throttle(node, OF_LEADERS)
        self.fetched = Throttle(node, OF_FOLLOWERS)

    # --- as a leader ---

    def hold_back(self, topics: Iterable[WantedTopic], replica: int) -> None:
        """Mark the partitions of a follower's fetch that are throttled, and hold them back if too much was sent."""
        limit = self._node.config.leader_replication_throttled_rate
        if limit == UNLIMITED:
            return
        over = self.sent.is_over(limit)
        for topic in topics:
            for wanted in topic.partitions:
                if wanted.partition is not None and self.sent.counts(wanted.partition, replica):
                    wanted.is_throttled, wanted.is_held = True, over

    def count(self, topics: Sequence[WantedTopic], reading: Reading) -> None:
        """Count what an answer has for throttled partitions."""
        for topic, answers in zip(topics, reading.response.topics, strict=True):
            for wanted, answer in zip(topic.partitions, answers.partitions, strict=True):
                if wanted.is_throttled:
                    self.sent.record(_size(answer.records))

    # --- as a follower ---

    def may_fetch(self, partition: HostedPartition) -> bool:
        """Whether a followed partition may be in the next fetch."""
        limit = self._node.config.follower_replication_throttled_rate
        if limit == UNLIMITED or not self.fetched.is_over(limit):
            return True
        return not self.fetched.counts(partition, self._node.node_id)

    def got(self, partition: HostedPartition, size: int) -> None:
        """Count the records of a followed partition that has been fetched."""
        limited = self._node.config.follower_replication_throttled_rate != UNLIMITED
        if size and limited and self.fetched.counts(partition, self._node.node_id):
            self.fetched.record(size)


def _size(records: Any) -> int:
    return records.length if hasattr(records, "length") else len(records or b"")
