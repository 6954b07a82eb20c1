"""SharedRecord: a record of a share group, which is acknowledged by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from streamactors.kafka.client.share.protocol import Ack, RecordData
from streamactors.kafka.record import ConsumerRecord

if TYPE_CHECKING:
    from streamactors.kafka.sources.share_group.leases_state import Lease


class SharedRecord(ConsumerRecord):
    """A record that is locked for this source until it is done. The fields are those of ConsumerRecord.

    It is accepted when its mark is done at every sink, unless `release` or `reject` was called before. `message` is None: the record
    does not come through librdkafka."""

    __slots__ = ("_data", "_lease", "_topic", "message", "value")

    def __init__(self, topic: str, lease: Lease, data: RecordData) -> None:
        self._topic = topic
        self._lease = lease
        self._data = data
        self.value = data.value
        self.message = None

    @property
    def key(self) -> bytes | None:
        """The key as bytes."""
        return self._data.key

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def partition(self) -> int:
        return self._lease.shard.partition

    @property
    def offset(self) -> int:
        return self._lease.offset

    @property
    def timestamp(self) -> int | None:
        """Milliseconds since 1970; None where the record has none."""
        return None if self._data.timestamp < 0 else self._data.timestamp

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """The headers in order; names may repeat."""
        return self._data.headers

    @property
    def delivery_count(self) -> int:
        """How often the record has been delivered to members of the group, this time included."""
        return self._lease.delivery_count

    def release(self) -> None:
        """Have the record delivered again, to any member, once its mark is done. To be called before the record has passed the sinks."""
        self._lease.verdict = Ack.RELEASE

    def reject(self) -> None:
        """Have the record never delivered again, once its mark is done. To be called before the record has passed the sinks."""
        self._lease.verdict = Ack.REJECT

    def __repr__(self) -> str:
        return f"SharedRecord({self.topic}-{self.partition}@{self.offset}, delivery {self.delivery_count}, key={self.key!r}, value={self.value!r})"
