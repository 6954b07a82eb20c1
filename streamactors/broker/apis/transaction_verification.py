"""Verifies that a partition is part of the producer's open transaction before a transactional batch is appended.

Owner: Produce and TxnOffsetCommit, on the data plane's thread. Otherwise a late batch of an aborted transaction would open a
transaction without an end, which blocks read_committed consumers, or would become part of the producer's next transaction. After the first batch
of a transaction, the log's own producer state is sufficient. A coordinator of this broker answers at once. Another broker is asked, and the
request waits for the answer. Source: the first part of KIP-890."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.node import Node
from streamactors.broker.protocol.produce import TopicRecords
from streamactors.broker.records.header import TRANSACTIONAL
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_messages import Asked, Errors

_PRODUCER: Final = struct.Struct(">qh")
_ATTRIBUTES_AT: Final = 22  # position of the lower byte of a batch's attributes
_PRODUCER_AT: Final = 43  # position of producer id and epoch in a batch
_ABORTABLE_SINCE: Final = 11  # the first Produce version whose clients know TRANSACTION_ABORTABLE

_RETRIABLE: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)

NOT_ASKED: Final[Errors] = {}
"""No other broker had to be asked."""


def is_transactional(records: memoryview) -> bool:
    """Whether a batch is part of a transaction."""
    return len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL)


def asked_elsewhere(node: Node, transactional_id: str, topics: Sequence[TopicRecords]) -> list[Asked]:
    """Return what another broker must be asked before these batches can be appended."""
    if not node.config.transaction_partition_verification_enable or not node.transactions.is_elsewhere(
        transactional_id
    ):
        return []
    asked: dict[tuple[int, int], list[TopicPartition]] = {}
    for name, topic_id, wanted in topics:
        name, hosted, _ = node.partitions.find(name, topic_id)
        for index, records in wanted:
            partition = hosted.get(index)
            if partition is None or not partition.is_leader or records is None or not is_transactional(records):
                continue
            if len(records) < _PRODUCER_AT + _PRODUCER.size:
                continue
            producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_AT)
            if partition.log.ongoing_transaction(producer_id) is None:
                asked.setdefault((producer_id, producer_epoch), []).append(TopicPartition(name, index))
    return [Asked(transactional_id, *producer, tuple(places)) for producer, places in asked.items()]


def check_transactional(
    node: Node,
    transactional_id: str | None,
    partition: HostedPartition,
    records: memoryview,
    version: int,
    verified: Errors = NOT_ASKED,
) -> None:
    """Raise Refusal unless the partition is part of the batch's open transaction. `verified` has the answers of another broker.

    A broker that does not lead the partition skips the check: the append refuses the batch with NOT_LEADER_OR_FOLLOWER."""
    if transactional_id is None:
        raise Refusal(
            ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "transactional records came without a transactional id"
        )
    if not partition.is_leader:
        return
    if len(records) < _PRODUCER_AT + _PRODUCER.size or not node.config.transaction_partition_verification_enable:
        return
    producer_id, producer_epoch = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    if partition.log.ongoing_transaction(producer_id) is not None:
        return
    where = TopicPartition(partition.topic, partition.index)
    error = verified.get(where)
    if error is None:
        error = node.transactions.verify_now(transactional_id, producer_id, producer_epoch, where)
    if error is not ErrorCode.NONE:
        raise Refusal(
            _of_produce(error, version),
            f"{partition} is not part of an open transaction of {transactional_id!r}, producer {producer_id}, "
            f"epoch {producer_epoch}: {error.name}",
        )


def check_offset_commit(
    node: Node, transactional_id: str, commit: CommitOffsets, then: Callable[[ErrorCode, CommitOffsets], object]
) -> None:
    """Call `then` with NONE and the commit to write, if the offsets of its group are part of the producer's open transaction."""
    if commit.producer_id < 0:
        then(ErrorCode.INVALID_PRODUCER_ID_MAPPING, commit)
        return
    index = node.groups.index_of(commit.group_id)
    partition = node.partitions.get(OFFSETS_TOPIC, index)
    if partition is None or not node.config.transaction_partition_verification_enable:
        then(ErrorCode.NONE, commit)
        return

    def is_open(partition: HostedPartition = partition) -> bool:
        return partition.log.ongoing_transaction(commit.producer_id) is not None

    if is_open():
        # The marker may wait for the group's coordinator already. The coordinator asks again when it writes the offsets.
        then(ErrorCode.NONE, replace(commit, still_open=is_open))
        return
    where = TopicPartition(OFFSETS_TOPIC, index)
    producer = (commit.producer_id, commit.producer_epoch)
    if node.transactions.is_elsewhere(transactional_id):
        asked = Asked(transactional_id, *producer, (where,))
        node.transactions.verify_elsewhere(asked, lambda errors: then(_of_offsets(errors[where]), commit))
    else:
        then(node.transactions.verify_now(transactional_id, *producer, where), commit)


def _of_offsets(error: ErrorCode) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NETWORK_EXCEPTION else error


def _of_produce(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _RETRIABLE else error
