"""What librdkafka's statistics tell of a consumer: what came from the broker, and the partitions that it does not know.

Owner: the consumer of a stream, in whose polls the statistics come. They are read when somebody asks, for they are long."""

from __future__ import annotations

import json
from typing import NamedTuple

from streamactors.kafka.subscriptions import TopicPartition

_UNKNOWN = '"unknown":true'


class Received(NamedTuple):
    """What came from the broker, by librdkafka's statistics: records, their bytes, those of them that wait inside librdkafka, and
    those that it gave out."""

    records: int = 0
    size: int = 0
    waiting: int = 0
    given: int = 0

    @property
    def thrown_away_bytes(self) -> int:
        """Bytes that were fetched in vain."""
        lost = max(0, self.records - self.waiting - self.given)
        return lost * self.size // self.records if lost else 0


def received_of(text: str, given: int) -> Received:
    """Return what has come by these statistics, when so many records had been given out."""
    of = [p for topic in json.loads(text).get("topics", {}).values() for p in topic["partitions"].values()]
    # all partitions feed the consumer's one queue, and each tells the length of that
    waiting = max((p["fetchq_cnt"] for p in of), default=0)
    return Received(sum(p["rxmsgs"] for p in of), sum(p["rxbytes"] for p in of), waiting, given)


def unknown_partitions(text: str) -> set[TopicPartition]:
    """Return the assigned partitions that the broker does not know, by librdkafka's statistics; of these alone it says nothing."""
    if _UNKNOWN not in text:
        return set()
    topics = json.loads(text).get("topics", {})
    return {
        TopicPartition(name, partition["partition"])
        for name, topic in topics.items()
        for partition in topic["partitions"].values()
        if partition["unknown"] and partition["desired"]
    }
