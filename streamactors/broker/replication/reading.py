"""Reads for Fetch: the records of each partition, within the size limits of the request.

Owner: the data plane. Large reads are not copied: they return slices of segment files, which are held until they are sent or
released. Source: Kafka's ReplicaManager.readFromLog; limits: KIP-74."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.log.partition.log_read import LogSlice
from streamactors.broker.log.shortage import passes
from streamactors.broker.protocol.fetch import (
    CONSUMER,
    READ_COMMITTED,
    FetchPartition,
    FetchResponse,
    PartitionFetched,
    TopicFetched,
)
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.replication.read_replica import STAY
from streamactors.broker.replication.sessions.fetch_session import Cached
from streamactors.broker.replication.warming import read_now
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.fetch")

_COPIED_UP_TO: Final = 16 << 10  # below this size a copy is cheaper than a separate sendfile
_COPIED_IN_ALL: Final = 256 << 10


_SAYS_LEADER: Final = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch: the request, and the hosted partition or an error."""

    asked: FetchPartition
    partition: HostedPartition | None
    error: ErrorCode = ErrorCode.NONE
    is_throttled: bool = False  # for a follower that must not copy as fast as it can
    is_held: bool = False  # a throttled partition gets no records now
    cached: Cached | None = None  # the partition in the fetch session


@dataclass(slots=True)
class WantedTopic:
    name: str
    topic_id: bytes | None
    partitions: list[Wanted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """Limits of a fetch. Sizes in bytes."""

    min_bytes: int
    max_bytes: int
    isolation_level: int
    replica_id: int = CONSUMER
    at_followers: bool = False
    """Whether this broker may answer where it follows: the client knows that a follower can answer (KIP-392)."""
    names_leader: bool = True
    """Whether an error of leadership names the leader (KIP-951)."""
    rack: str = ""
    """The client's rack, if a leader sends clients to replicas of their rack."""

    def error(self, wanted: Wanted) -> ErrorCode:
        """Return why a hosted partition cannot be read."""
        assert wanted.partition is not None
        epoch = wanted.asked.current_leader_epoch
        if self.replica_id >= 0:
            return wanted.partition.epoch_error(epoch)
        error = wanted.partition.client_error(epoch)
        if error is ErrorCode.NOT_LEADER_OR_FOLLOWER and self.at_followers and wanted.partition.is_follower:
            return ErrorCode.NONE
        return error

    def bound(self, partition: HostedPartition) -> int:
        """Exclusive upper bound of the visible offsets. A follower sees the whole log."""
        if self.replica_id >= 0:
            return partition.log_end_offset
        if self.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark


@dataclass(slots=True)
class Reading:
    """The result of one read of every partition. Send or release its slices."""

    response: FetchResponse[LogSlice]
    size: int
    ends_wait: bool  # a partition has an error, its logs differ, or another replica is to be asked: nothing is gained by waiting
    slices: list[LogSlice]

    def without(self, lost: Sequence[LogSlice]) -> FetchResponse[LogSlice]:
        """Return the response with KAFKA_STORAGE_ERROR in place of the lost slices, which are released."""
        for each in lost:
            each.release()
        return self.response._replace(
            topics=[
                topic._replace(
                    partitions=[
                        PartitionFetched(answer.partition, ErrorCode.KAFKA_STORAGE_ERROR)
                        if any(answer.records is each for each in lost)
                        else answer
                        for answer in topic.partitions
                    ]
                )
                for topic in self.response.topics
            ]
        )

    def release(self) -> None:
        """Release the slices without sending them."""
        for each in self.slices:
            each.release()


def read_all(topics: Iterable[WantedTopic], limits: ReadLimits) -> Reading:
    """Read every partition once, the first non-empty one even beyond the limits, so that a large batch cannot block a
    consumer."""
    left = limits.max_bytes
    size = 0
    ends_wait = False
    copied_left = _COPIED_IN_ALL
    slices: list[LogSlice] = []
    answers = []
    for topic in topics:
        partitions: list[PartitionFetched[LogSlice]] = []
        for wanted in topic.partitions:
            answer = read_one(wanted, limits, left, size == 0, min(_COPIED_UP_TO, copied_left))
            records = answer.records
            if isinstance(records, LogSlice):
                length = records.length
                slices.append(records)
            elif records:
                length = len(records)
                copied_left -= length
            else:
                length = 0
                if answer.error_code or answer.diverging is not None or answer.preferred_replica != STAY:
                    ends_wait = True
            size += length
            left = max(0, left - length)
            partitions.append(answer)
        answers.append(TopicFetched(topic.name, topic.topic_id, partitions))
    return Reading(FetchResponse(answers), size, ends_wait, slices)


def read_one(
    wanted: Wanted, limits: ReadLimits, left: int, min_one: bool, copied_below: int
) -> PartitionFetched[LogSlice]:
    """Read one partition: few records as bytes, many as a slice. An error has no records and no offsets."""
    asked, partition = wanted.asked, wanted.partition
    error = wanted.error
    if partition is not None and not error:
        error = limits.error(wanted)
    if error or partition is None:
        if partition is None:  # refused, or missing: Kafka's answer has an empty list here, and null elsewhere
            return PartitionFetched(asked.partition, error, aborted=())
        leads = (
            partition.is_leader and error is ErrorCode.NOT_LEADER_OR_FOLLOWER
        )  # without a lease: who leads is not known
        told = limits.names_leader and error in _SAYS_LEADER and not leads
        return PartitionFetched(
            asked.partition, error, leader=(partition.leader, partition.leader_epoch) if told else None
        )
    if asked.last_fetched_epoch >= 0:
        diverging = divergence(asked, partition)
        if diverging is not None:
            if diverging[0] < 0:
                return PartitionFetched(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
            return PartitionFetched(asked.partition, 0, *_offsets(partition), b"", diverging=diverging)
    if wanted.is_held:
        return PartitionFetched(asked.partition, 0, *_offsets(partition), b"")
    if limits.rack:
        preferred = partition.preferred_replica(limits.rack, asked.offset)
        if preferred != STAY:
            return PartitionFetched(asked.partition, 0, *_offsets(partition), b"", preferred_replica=preferred)
    log = partition.log
    bound = limits.bound(partition)
    try:
        piece = log.read(asked.offset, min(asked.max_bytes, left), bound, min_one)
        aborted = _aborted_in(piece, partition, asked.offset) if limits.isolation_level == READ_COMMITTED else None
    except BrokerError as cause:
        return PartitionFetched(asked.partition, cause.code)
    except OSError as cause:
        partition.read_failed(cause)
        if not passes(cause):  # the data folder says when descriptors are short
            log_limited(
                _log, logging.ERROR, (partition.topic, cause.errno),  # clients fetch again at once
                "%s: cannot read at offset %d: %s", partition, asked.offset, cause,
            )  # fmt: skip
        return PartitionFetched(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    records: bytes | bytearray | LogSlice = piece
    if not piece.length:
        records = b""
    elif piece.length < copied_below:
        records = read_now(piece) or piece
    if records is not piece:
        piece.release()
    return PartitionFetched(asked.partition, 0, *_offsets(partition), records, aborted)


def divergence(asked: FetchPartition, partition: HostedPartition) -> tuple[int, int] | None:
    """Return None if the reader's log agrees with this one, else the (epoch, end offset) of the largest epoch here that is at most
    the reader's last one (KIP-595); (-1, -1) if there is none."""
    epoch, end_offset = partition.log.epoch_end_offset(asked.last_fetched_epoch)
    if epoch < asked.last_fetched_epoch or end_offset < asked.offset:
        return epoch, end_offset
    return None


def _aborted_in(piece: LogSlice, partition: HostedPartition, offset: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions in a slice. Release the slice on an error."""
    if not piece.length:
        return []
    try:
        found = partition.log.reader.aborted_transactions(offset, piece.end_offset)
    except OSError:
        piece.release()
        raise
    return [(each.producer_id, each.first_offset) for each in found]


def _offsets(partition: HostedPartition) -> tuple[int, int, int]:
    return partition.high_watermark, partition.last_stable_offset, partition.log_start_offset
