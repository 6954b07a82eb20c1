"""One partition that a consumer reads.

Owner: the fetcher. `version` changes whenever what was fetched before must not be delivered: a seek, a pause, the end of the assignment. librdkafka
has the same barrier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.kafka.client.connection import ck
from streamactors.simulation.cluster.partitions.batch import Batch, MarkerBatch

UNKNOWN: Final = -1001
"""librdkafka's OFFSET_INVALID."""
_Message: Any = ck.Message
_CREATED: Final = ck.TIMESTAMP_CREATE_TIME
_APPENDED: Final = ck.TIMESTAMP_LOG_APPEND_TIME


class Reading:
    """The state of one assigned partition."""

    __slots__ = (
        "begun",
        "bytes_received",
        "eof_at",
        "fetch_offset",
        "fetching",
        "high",
        "key",
        "known_end",
        "low",
        "paused",
        "position",
        "queued",
        "received",
        "restart",
        "stable",
        "start",
        "started",
        "unknown",
        "version",
        "waits_for_poll",
    )

    def __init__(self, key: tuple[str, int], start: int) -> None:
        self.key = key
        self.start = start
        """An offset, or librdkafka's OFFSET_BEGINNING, OFFSET_END, OFFSET_STORED."""
        self.begun = False
        """Whether it is known where to fetch next."""
        self.started = False
        """Whether it was ever known: from then on it can be sought, also while another beginning is looked up."""
        self.position = UNKNOWN
        """After the last record that was delivered."""
        self.restart = UNKNOWN
        """Where it is fetched from after a barrier: after the last delivered record, or where it began."""
        self.fetch_offset = UNKNOWN
        self.version = 0
        self.paused = False
        self.waits_for_poll = False
        """A rebalance callback waits for the poll: nothing is delivered before it."""
        self.fetching = False
        self.known_end = -1
        self.low = self.high = self.stable = UNKNOWN
        self.eof_at = -1
        self.queued = 0
        self.received = self.bytes_received = 0
        self.unknown = False

    def barrier(self) -> None:
        """Let nothing be delivered that was fetched before; it is fetched again."""
        self.version += 1
        self.fetching = False
        self.queued = 0
        self.fetch_offset = self.restart
        self.known_end = self.eof_at = -1

    @property
    def stopped(self) -> bool:
        """Whether it must not be fetched now."""
        return self.paused or self.waits_for_poll or not self.begun


def messages_of(key: tuple[str, int], batches: Sequence[Batch], first: int) -> list[Any]:
    """Return the records from offset `first` on as confluent-kafka's messages."""
    topic, partition = key
    out: list[Any] = []
    for batch in batches:
        if isinstance(batch, MarkerBatch):
            continue
        stamped, kind = batch.append_time, _APPENDED if batch.append_time else _CREATED
        of_batch = batch.max_timestamp
        if not stamped and batch.offsets is None and batch.base_offset >= first:
            out += [
                _Message(topic, partition, offset, row[0], row[1], row[3] and list(row[3]), None, (kind, row[2]))
                for offset, row in enumerate(batch.rows, batch.base_offset)
            ]
            continue
        for offset, (k, value, time, headers) in zip(batch.numbered(), batch.rows, strict=True):
            if offset >= first:
                at = of_batch if stamped else time
                out.append(_Message(topic, partition, offset, k, value, headers and list(headers), None, (kind, at)))
    return out
