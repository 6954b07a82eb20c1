"""Lets a transactional batch into a partition only if the partition is part of the producer's open transaction.

Owner: Produce, on the data plane's thread. Without it a batch that comes too late (its transaction was aborted
meanwhile) would open a transaction that nobody ever ends, and read_committed consumers would stop there. Once the
first batch is in, the log's own producer state answers. Source: KIP-890, its first part."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from streamactors.broker.errors import BrokerError, ErrorCode
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


class TransactionRefused(BrokerError):
    """A transactional batch that may not be appended; the code says whether trying again helps."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code  # type: ignore[misc]  # a class variable of the errors that have one code each


def check_transactional(
    node: Node, transactional_id: str | None, partition: Partition, records: memoryview, version: int
) -> None:
    """Raise TransactionRefused unless a transactional batch belongs where it is going."""
    if transactional_id is None:
        raise TransactionRefused(
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
        raise TransactionRefused(
            _of_produce(error, version),
            f"{partition} is not part of an open transaction of {transactional_id!r}, producer {producer_id}, "
            f"epoch {producer_epoch}: {error.name}",
        )


def _of_produce(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _RETRIABLE else error
