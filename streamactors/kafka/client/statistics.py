"""librdkafka's statistics of a consumer: the records received from the broker, and assigned partitions that the broker does not
know, and whether there is a connection.

Owner: the consumer of a stream; its polls deliver the statistics. They are long, so they are parsed on demand."""

from __future__ import annotations

import json
from typing import NamedTuple

from streamactors.kafka.subscriptions import TopicPartition

_UNKNOWN = '"unknown":true'


_CONNECTED = '"state":"UP"'


class Received(NamedTuple):
    """Records received from the broker, their bytes, the records that wait inside librdkafka, and the records it delivered."""

    records: int = 0
    size: int = 0
    waiting: int = 0
    given: int = 0

    @property
    def thrown_away_bytes(self) -> int:
        """Bytes of records that were fetched and dropped before delivery."""
        lost = max(0, self.records - self.waiting - self.given)
        return lost * self.size // self.records if lost else 0


def received_of(text: str, given: int) -> Received:
    """Return the counts of these statistics; `given` is the number of records delivered when they were made."""
    of = [p for topic in json.loads(text).get("topics", {}).values() for p in topic["partitions"].values()]
    # all partitions feed one queue, and each partition reports the length of that queue
    waiting = max((p["fetchq_cnt"] for p in of), default=0)
    return Received(sum(p["rxmsgs"] for p in of), sum(p["rxbytes"] for p in of), waiting, given)


def sees_broker(text: str) -> bool:
    """Return whether the client is connected to a broker."""
    return _CONNECTED in text


def unknown_partitions(text: str) -> set[TopicPartition]:
    """Return the assigned partitions that the broker does not know. librdkafka reports them in its statistics only."""
    if _UNKNOWN not in text:
        return set()
    topics = json.loads(text).get("topics", {})
    return {
        TopicPartition(name, partition["partition"])
        for name, topic in topics.items()
        for partition in topic["partitions"].values()
        if partition["unknown"] and partition["desired"]
    }
