"""Lets a transactional batch into a partition only if the partition is part of the producer's open transaction.

Owner: Produce, on the data plane's thread. Without it a batch that comes too late (its transaction was aborted
meanwhile) would open a transaction that nobody ever ends, and read_committed consumers would stop there. Once the
first batch is in, the log's own producer state answers. Source: KIP-890, its first part."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.partition import Partition

if TYPE_CHECKING:
    from streamactors.broker.node import Node

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


def transactional_error(
    node: Node, transactional_id: str | None, partition: Partition, records: memoryview, version: int
) -> ErrorCode:
    """Return NONE if a transactional batch may be appended, else what Produce answers."""
    if transactional_id is None:
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if len(records) < _PRODUCER_AT + _PRODUCER.size or not node.config.transaction_partition_verification_enable:
        return ErrorCode.NONE
    producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    if partition.log.ongoing_transaction(producer_id) is not None:
        return ErrorCode.NONE
    where = (partition.topic, partition.index)
    error: ErrorCode = node.transactions.verify_now(transactional_id, producer_id, producer_epoch, where)
    if error is ErrorCode.TRANSACTION_ABORTABLE:
        return error if version >= _ABORTABLE_SINCE else ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _RETRIABLE else error
