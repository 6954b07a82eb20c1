"""What a replay sends: the records that its clients have appended to topics that users see.

Owner: a replay. A record of an aborted transaction is shown when it is sent, and does not count as a result."""

from __future__ import annotations

from typing import NamedTuple

from streamactors.simulation.capture.capsule import Capsule, CapturedRecord, Kind
from streamactors.simulation.capture.elements import bytes_text
from streamactors.simulation.cluster.cluster import SimulatedCluster
from streamactors.simulation.cluster.partitions.partition import Partition


class SentRecord(NamedTuple):
    """A record that was sent. `in_transaction`: a transaction decides about it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    in_transaction: bool = False

    @property
    def place(self) -> str:
        """The topic, partition and offset: `counts-0@17`."""
        return f"{self.topic}-{self.partition}@{self.offset}"

    @property
    def key_text(self) -> str:
        """The key as text."""
        return bytes_text(self.key)

    @property
    def value_text(self) -> str:
        """The value as text."""
        return "tombstone" if self.value is None else bytes_text(self.value)


class SentRecords:
    """Follows the logs of a cluster."""

    def __init__(self, cluster: SimulatedCluster, capsule: Capsule) -> None:
        self._cluster = cluster
        self._capsule = capsule
        self._hidden = {topic.name for topic in capsule.topics if topic.kind in (Kind.CHANGELOG, Kind.REPARTITION)}
        self._fed: set[tuple[str, int, int]] = set()
        self._begins = {key: partition.log.end_offset for key, partition in cluster.topics.partitions.items()}
        self._seen = dict(self._begins)

    def fed(self, record: CapturedRecord) -> None:
        """This record was put into the cluster by the replay."""
        self._fed.add(record[:3])

    @property
    def ends(self) -> int:
        """A number that grows with every record that is appended."""
        return sum(partition.log.end_offset for partition in self._cluster.topics.partitions.values())

    def new(self) -> tuple[SentRecord, ...]:
        """Return what was sent since the last call."""
        found: list[SentRecord] = []
        for key, partition in self._cluster.topics.partitions.items():
            begin = self._seen.get(key, 0)
            if partition.log.end_offset > begin:
                self._seen[key] = partition.log.end_offset
                found += self._of(partition, begin)
        return tuple(found)

    def kept(self) -> tuple[SentRecord, ...]:
        """Return everything that was sent, without what was aborted or is still in an open transaction."""
        return tuple(
            record
            for key, partition in self._cluster.topics.partitions.items()
            for record in self._of(partition, self._begins.get(key, 0), committed_only=True)
        )

    def _of(self, partition: Partition, begin: int, *, committed_only: bool = False) -> list[SentRecord]:
        if self._is_hidden(partition.topic):
            return []
        found = []
        for batch in partition.log.read(begin, partition.log.end_offset, 1 << 62):
            if committed_only and (partition.log.is_aborted(batch) or batch.last_offset >= partition.stable_end):
                continue
            for offset, (key, value, timestamp, _) in zip(batch.numbered(), batch.rows, strict=False):
                if offset >= begin and (partition.topic, partition.index, offset) not in self._fed:
                    found.append(
                        SentRecord(partition.topic, partition.index, offset, timestamp, key, value, batch.transactional)
                    )
        return found

    def _is_hidden(self, topic: str) -> bool:
        own = topic.startswith(f"{self._capsule.group}-") and topic.endswith(("-changelog", "-repartition"))
        return own or topic in self._hidden
