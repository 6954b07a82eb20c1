"""Acknowledging records of a share partition: a member says what became of what it acquired. Pure.

Rules: Apache Kafka's SharePartition.acknowledge (KIP-932; renewal: KIP-1222). All acknowledgements of a request for one partition count, or
none: the first wrong one undoes those before it, but not renewals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.share.partition.in_flight import NOBODY, Batch, InFlight, RecordState
from streamactors.broker.share.partition.share_partition import Change, SharePartition


class AcknowledgeType(IntEnum):
    """What became of a record."""

    GAP = 0  # there is no such record in the log: a control record, or one that was removed by compaction
    ACCEPT = 1  # processed
    RELEASE = 2  # to be delivered again
    REJECT = 3  # not to be delivered again
    RENEW = 4  # still being processed: lock it anew


_T = AcknowledgeType
_BECOMES: Final[Mapping[AcknowledgeType, RecordState]] = {
    _T.GAP: RecordState.ARCHIVED,
    _T.ACCEPT: RecordState.ACKNOWLEDGED,
    _T.RELEASE: RecordState.AVAILABLE,
}


class AcknowledgementRefused(BrokerError):
    """An acknowledgement does not fit the state of the records."""

    def __init__(self, message: str, code: ErrorCode = ErrorCode.INVALID_RECORD_STATE) -> None:
        super().__init__(message)
        self.code = code


class Acknowledgement(NamedTuple):
    """Acknowledgement of consecutive records: one type for all of them, or one for each."""

    first: int
    last: int
    types: Sequence[int]

    def type_of(self, offset: int) -> AcknowledgeType:
        """Return the type for a record."""
        return AcknowledgeType(self.types[0] if len(self.types) == 1 else self.types[offset - self.first])


def acknowledge(
    partition: SharePartition, member: str, acknowledgements: Sequence[Acknowledgement], now_ms: float
) -> Change:
    """Begin the change that the acknowledgements ask for. Raises AcknowledgementRefused; then nothing has changed but renewed locks."""
    change = Change()
    try:
        for each in acknowledgements:
            _acknowledge_one(partition, member, each, change, now_ms)
    except BrokerError:
        partition.finish(change, False, now_ms)
        raise
    return change


def _acknowledge_one(
    partition: SharePartition, member: str, asked: Acknowledgement, change: Change, now_ms: float
) -> None:
    known = AcknowledgeType._value2member_map_
    if any(each not in known for each in asked.types):
        raise AcknowledgementRefused(f"Invalid acknowledge type: {list(asked.types)}", ErrorCode.INVALID_REQUEST)
    if asked.last < partition.start:
        return  # archived since
    for batch in _asked_batches(partition, asked):
        if batch.last < partition.start:
            continue
        if batch.whole is not None:
            _check_owner(batch.whole, member)
            entire = asked.first <= batch.first and batch.last <= asked.last
            if entire and len(asked.types) == 1 and not batch.straddles(partition.start):
                kind = asked.type_of(batch.first)
                _apply(partition, batch.first, batch.last, batch.whole, kind, change, now_ms)
                continue
            if batch.whole.state is not RecordState.ACQUIRED:
                raise AcknowledgementRefused(
                    "The batch cannot be acknowledged. The subset batch is not in the acquired state."
                )
        _acknowledge_records(partition, member, asked, batch, change, now_ms)


def _asked_batches(partition: SharePartition, asked: Acknowledgement) -> list[Batch]:
    floor = partition.floor(asked.first)
    if floor is None:
        if asked.first < partition.start <= asked.last:
            floor = partition.floor(partition.start)
        if floor is None:
            raise AcknowledgementRefused(
                "Batch record not found. The request batch offsets are not found in the cache."
            )
    batches = partition.between(floor.first, asked.last)
    if batches[-1].last < asked.first:
        raise AcknowledgementRefused(
            "Batch record not found. The first offset in request is past acquired records.", ErrorCode.INVALID_REQUEST
        )
    if asked.last > batches[-1].last:
        raise AcknowledgementRefused(
            "Batch record not found. The last offset in request is past acquired records.", ErrorCode.INVALID_REQUEST
        )
    return batches


_BEING_STORED: Final = "The record state is invalid. The acknowledgement of delivery could not be completed."


def _check_owner(whole: InFlight, member: str) -> None:
    if whole.member == NOBODY:
        raise AcknowledgementRefused("The batch cannot be acknowledged. The batch is not in the acquired state.")
    if whole.member != member:
        raise AcknowledgementRefused("Member is not the owner of batch record")
    if whole.before is not None:
        raise AcknowledgementRefused(_BEING_STORED)


def _acknowledge_records(
    partition: SharePartition, member: str, asked: Acknowledgement, batch: Batch, change: Change, now_ms: float
) -> None:
    records = batch.split()
    for offset in range(max(asked.first, partition.start, batch.first), min(asked.last, batch.last) + 1):
        record = records[offset]
        if record.state is not RecordState.ACQUIRED:
            raise AcknowledgementRefused("The offset cannot be acknowledged. The offset is not acquired.")
        if record.before is not None:
            raise AcknowledgementRefused(_BEING_STORED)
        if record.member != member:
            raise AcknowledgementRefused("Member is not the owner of offset")
        _apply(partition, offset, offset, record, asked.type_of(offset), change, now_ms)


def _apply(
    partition: SharePartition,
    first: int,
    last: int,
    state: InFlight,
    kind: AcknowledgeType,
    change: Change,
    now_ms: float,
) -> None:
    limits = partition.limits
    if kind is AcknowledgeType.RENEW:
        if not limits.renewal:
            raise AcknowledgementRefused("Renewing acquisition locks is not enabled for the group.")
        state.lock_until_ms = now_ms + limits.lock_ms
        return
    if not state.begin(_BECOMES.get(kind, limits.given_up), limits):
        raise AcknowledgementRefused("Unable to acknowledge records for the batch")
    change.add(first, last, state, rejected=kind is AcknowledgeType.REJECT)
