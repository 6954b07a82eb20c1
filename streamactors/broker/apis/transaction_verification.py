"""Verifies that a partition is part of the producer's open transaction before a transactional batch is appended.

Owner: Produce and TxnOffsetCommit, on the data plane's thread. Otherwise a late batch of an aborted transaction would open a
transaction without an end, which blocks read_committed consumers. After the first batch of a transaction, the log's own producer
state is sufficient. Source: the first part of KIP-890."""

from __future__ import annotations

import struct
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.node import Node
from streamactors.broker.replication.hosted_partition import HostedPartition

_PRODUCER: Final = struct.Struct(">qh")
_PRODUCER_AT: Final = 43  # position of producer id and epoch in a batch
_ABORTABLE_SINCE: Final = 11  # the first Produce version whose clients know TRANSACTION_ABORTABLE

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def check_transactional(
    node: Node, transactional_id: str | None, partition: HostedPartition, records: memoryview, version: int
) -> None:
    """Raise Refusal unless the partition is part of the batch's open transaction."""
    if transactional_id is None:
        raise Refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records came without a transactional id"
        )
    if len(records) < _PRODUCER_AT + _PRODUCER.size or not node.config.transaction_partition_verification_enable:
        return
    producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    if partition.log.ongoing_transaction(producer_id) is not None:
        return
    where = (partition.topic, partition.index)
    error = node.transactions.verify_now(transactional_id, producer_id, producer_epoch, where)
    if error is not ErrorCode.NONE:
        raise Refusal(
            _of_produce(error, version),
            f"{partition} is not part of an open transaction of {transactional_id!r}, producer {producer_id}, "
            f"epoch {producer_epoch}: {error.name}",
        )


def offset_commit_error(node: Node, transactional_id: str, commit: CommitOffsets) -> ErrorCode:
    """Return NONE if the offsets of the commit's group are part of the producer's open transaction."""
    if commit.producer_id < 0:
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING
    index = node.groups.index_of(commit.group_id)
    partition = node.partitions.get(OFFSETS_TOPIC, index)
    if (
        partition is None
        or not node.config.transaction_partition_verification_enable
        or partition.log.ongoing_transaction(commit.producer_id) is not None
    ):
        return ErrorCode.NONE
    producer = (commit.producer_id, commit.producer_epoch)
    return node.transactions.verify_now(transactional_id, *producer, (OFFSETS_TOPIC, index))


def _of_produce(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _RETRIABLE else error
