"""The records of a topic as a reader sees them, without a client: a check must not wait.

Owner: the simulation of one run. A partition's log is read up to its high watermark, or up to its last stable offset without aborted
transactions; what is before them does not change any more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from streamactors.simulation.cluster.cluster import SimulatedCluster
    from streamactors.simulation.cluster.partitions.partition import Partition


class SeenRecord(NamedTuple):
    """A record of a topic. `timestamp`: ms since 1970."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: Sequence[tuple[str, bytes | None]] = ()

    @property
    def json(self) -> Any:
        """The value, read as JSON; None for none. Raises ValueError."""
        return None if self.value is None else json.loads(self.value)


class Seen:
    """What was read so far, so that each record is looked at once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._records: dict[tuple[str, int, bool], list[SeenRecord]] = {}
        self._next: dict[tuple[str, int, bool], int] = {}

    def of(self, topic: str, *, committed: bool) -> list[SeenRecord]:
        """Return the records of a topic by partition and offset. Raises UnknownTopic."""
        found: list[SeenRecord] = []
        for partition in self._cluster.topics.of(topic):
            found += self._of_partition(partition, committed)
        return found

    def _of_partition(self, partition: Partition, committed: bool) -> list[SeenRecord]:
        where = (partition.topic, partition.index, committed)
        records, begin = self._records.setdefault(where, []), self._next.get(where, 0)
        end = partition.stable_end if committed else partition.high_watermark
        if end <= begin:
            return records
        log = partition.log
        for batch in log.read(begin, end, 1 << 60):
            if batch.rows and not (committed and log.is_aborted(batch)):
                for offset, (key, value, time, headers) in zip(batch.numbered(), batch.rows, strict=True):
                    if offset >= begin:
                        records.append(
                            SeenRecord(partition.topic, partition.index, offset, key, value, time, headers or ())
                        )
            self._next[where] = batch.last_offset + 1
        return records
