"""What a share consumer asks of a broker, and what it is answered, as plain data.

`kafka/sources/share_group/queue_state.py` makes the requests; this room sends them and reads the answers. Source: KIP-932, KIP-1206 (acquire
modes), KIP-1222 (renewal)."""

from __future__ import annotations

import enum
import uuid
from dataclasses import dataclass, field
from typing import NamedTuple

from streamactors.broker.errors import ErrorCode as ErrorCode


class Ack(enum.IntEnum):
    """What becomes of a locked offset; the numbers are the protocol's."""

    GAP = 0
    """The offset has no record for a consumer: compacted away, aborted, or a control record."""
    ACCEPT = 1
    RELEASE = 2
    """Deliver the record again, to any member."""
    REJECT = 3
    """Never deliver the record again."""
    RENEW = 4
    """The record is still being worked on: lock it anew."""


class Shard(NamedTuple):
    """A partition, by the id of its topic."""

    topic_id: uuid.UUID
    partition: int


class AckRange(NamedTuple):
    """The same acknowledgement for all offsets from `first` to `last`, both included."""

    first: int
    last: int
    ack: Ack


class Purpose(enum.Enum):
    """Why a request is sent."""

    FETCH = "fetch"
    ACKNOWLEDGE = "acknowledge"
    CLOSE = "close"
    """Acknowledge and end the session; the broker releases what is left."""


@dataclass(frozen=True, slots=True)
class ShareRequest:
    """One request of a share session. A session has one request at a time."""

    purpose: Purpose
    member_id: str
    epoch: int
    """0 opens a session, -1 closes it."""
    acks: dict[Shard, list[AckRange]] = field(default_factory=dict)
    added: tuple[Shard, ...] = ()
    """Partitions that are new in the session."""
    forgotten: tuple[Shard, ...] = ()
    max_records: int = 0
    max_wait_ms: int = 0

    @property
    def renews(self) -> bool:
        """True if a lock is renewed."""
        return any(each.ack is Ack.RENEW for ranges in self.acks.values() for each in ranges)


class RecordData(NamedTuple):
    """The fields of a record."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Acquired(NamedTuple):
    """A locked offset of an answer. `data` is None without a record: then `otherwise` says how the offset is acknowledged."""

    offset: int
    delivery_count: int
    data: RecordData | None
    otherwise: Ack = Ack.GAP


@dataclass(frozen=True, slots=True)
class ShardAnswer:
    """The answer for one partition. Errors are Kafka's codes, 0: none."""

    shard: Shard
    error: int = 0
    ack_error: int = 0
    acquired: list[Acquired] = field(default_factory=list)
    problem: str = ""
    """Why records could not be read; empty: all could."""


@dataclass(frozen=True, slots=True)
class ShareAnswer:
    """The answer to a ShareRequest."""

    error: int = 0
    message: str = ""
    lock_ms: int = 0
    """How long records are locked; 0: the answer does not say."""
    shards: list[ShardAnswer] = field(default_factory=list)
