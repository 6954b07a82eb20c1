"""Reading for Fetch: what each partition gives, within the sizes that the request allows.

Owner: the data plane. Nothing here copies records: a read gives slices of segment files, which are held until they are
sent or released. Source: Kafka's ReplicaManager.readFromLog; limits: KIP-74."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.log.log_read import LogSlice
from streamactors.broker.protocol.fetch import (
    READ_COMMITTED,
    FetchPartition,
    FetchResponse,
    PartitionFetched,
    TopicFetched,
)
from streamactors.broker.replication.partition import Partition
from streamactors.broker.replication.warming import read_now

if TYPE_CHECKING:
    from streamactors.broker.node import Node

_log = logging.getLogger("streamactors.broker.fetch")

_COPIED_UP_TO: Final = 16 << 10  # below this a read and one send are cheaper than two system calls of their own
_COPIED_IN_ALL: Final = 256 << 10


@dataclass(slots=True)
class Wanted:
    """One partition of a fetch: what is asked, and where it is, or why not."""

    asked: FetchPartition
    partition: Partition | None
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class WantedTopic:
    name: str
    topic_id: bytes | None
    partitions: list[Wanted] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a request allows. Sizes in bytes."""

    min_bytes: int
    max_bytes: int
    isolation_level: int

    def bound(self, partition: Partition) -> int:
        """The first offset that must not be read."""
        if self.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.high_watermark


@dataclass(slots=True)
class Reading:
    """The outcome of reading every partition once. Its slices are held: send or release them."""

    response: FetchResponse[LogSlice]
    size: int
    failed: bool
    slices: list[LogSlice]

    def without(self, lost: Sequence[LogSlice]) -> FetchResponse[LogSlice]:
        """Return the response with the disk's error in place of some slices, which are let go."""
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
        """Let go of the slices unsent."""
        for each in self.slices:
            each.release()


def read_all(topics: Iterable[WantedTopic], limits: ReadLimits) -> Reading:
    """Read every partition once, the first non-empty one even beyond the limits, so that a large batch cannot block a
    consumer."""
    left = limits.max_bytes
    size = 0
    failed = False
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
                if answer.error_code:
                    failed = True
            size += length
            left = max(0, left - length)
            partitions.append(answer)
        answers.append(TopicFetched(topic.name, topic.topic_id, partitions))
    return Reading(FetchResponse(answers), size, failed, slices)


def read_one(
    wanted: Wanted, limits: ReadLimits, left: int, min_one: bool, copied_below: int
) -> PartitionFetched[LogSlice]:
    """Read one partition: few records as bytes, many as a slice. An error has no records and no offsets."""
    asked, partition = wanted.asked, wanted.partition
    error = wanted.error
    if partition is not None and not error:
        error = partition.epoch_error(asked.current_leader_epoch)
    if error or partition is None:
        return PartitionFetched(asked.partition, error)
    if asked.last_fetched_epoch >= 0:
        epoch, end_offset = partition.log.epoch_end_offset(asked.last_fetched_epoch)
        if epoch < 0:
            return PartitionFetched(asked.partition, ErrorCode.OFFSET_OUT_OF_RANGE)
        if epoch < asked.last_fetched_epoch or end_offset < asked.offset:
            # Where the reader's log and ours part: the end of the largest epoch we have up to the reader's last
            # (KIP-595).
            return PartitionFetched(asked.partition, 0, *_offsets(partition), b"", diverging=(epoch, end_offset))
    log = partition.log
    bound = limits.bound(partition)
    try:
        piece = log.read(asked.offset, min(asked.max_bytes, left), bound, min_one)
        aborted = _aborted_in(piece, partition, asked.offset) if limits.isolation_level == READ_COMMITTED else None
    except BrokerError as cause:
        return PartitionFetched(asked.partition, cause.code)
    except OSError as cause:
        _log.error("%s: cannot read at offset %d: %s", partition, asked.offset, cause)
        return PartitionFetched(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR)
    records: bytes | bytearray | LogSlice = piece
    if not piece.length:
        records = b""
    elif piece.length < copied_below:
        records = read_now(piece) or piece
    if records is not piece:
        piece.release()
    return PartitionFetched(asked.partition, 0, *_offsets(partition), records, aborted)


def _aborted_in(piece: LogSlice, partition: Partition, offset: int) -> list[tuple[int, int]]:
    """Return (producer id, first offset) of the aborted transactions in a slice, which is let go if that fails."""
    if not piece.length:
        return []
    try:
        found = partition.log.aborted_transactions(offset, piece.end_offset)
    except OSError:
        piece.release()
        raise
    return [(each.producer_id, each.first_offset) for each in found]


def _offsets(partition: Partition) -> tuple[int, int, int]:
    return partition.high_watermark, partition.last_stable_offset, partition.log_start_offset


def find_topic(node: Node, name: str, topic_id: bytes | None) -> tuple[str, Mapping[int, Partition], ErrorCode]:
    """Return (name, hosted partitions, error for those that are not) of a topic named either way; the name is "" if
    unknown."""
    partitions = node.partitions
    if topic_id is not None:
        name = partitions.name_of(topic_id) or ""
        if not name:
            return "", {}, ErrorCode.UNKNOWN_TOPIC_ID
    return name, partitions.of_topic(name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
