"""Verifies that a partition is part of the producer's open transaction before a transactional batch is appended, or adds it.

Owner: Produce and TxnOffsetCommit, on the data plane's thread. Otherwise a late batch of an aborted transaction would open a
transaction without an end, which blocks read_committed consumers, or would become part of the producer's next transaction. After the first batch
of a transaction, the log's own producer state is sufficient. A coordinator of this broker answers at once. Another broker is asked, and the
request waits for the answer. A producer of transaction.version 2 (Produce 12, TxnOffsetCommit 5) does not send AddPartitionsToTxn: its
partitions are added instead of verified. Source: KIP-890."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from streamactors.broker.errors import ErrorCode, InvalidProducerEpoch, OutOfOrderSequence, Refusal
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.node import Node
from streamactors.broker.protocol.produce import TopicRecords
from streamactors.broker.records.header import TRANSACTIONAL
from streamactors.broker.replication.hosted_partition import HostedPartition
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_messages import Errors, VerificationRequest

_PRODUCER: Final = struct.Struct(">qhi")
_ATTRIBUTES_AT: Final = 22  # position of the lower byte of a batch's attributes
_PRODUCER_AT: Final = 43  # position of producer id, epoch and first sequence number in a batch
_ABORTABLE_SINCE: Final = 11  # the first Produce version whose clients know TRANSACTION_ABORTABLE
ADDS_SINCE: Final = 12
"""The first Produce version whose producers leave it to the leader to add a partition to their transaction."""

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
"""Returned if no other broker had to be asked."""


def is_transactional(records: memoryview) -> bool:
    """Whether a batch is part of a transaction."""
    return len(records) > _ATTRIBUTES_AT and bool(records[_ATTRIBUTES_AT] & TRANSACTIONAL)


def questions(
    node: Node, transactional_id: str, topics: Sequence[TopicRecords], version: int
) -> list[VerificationRequest]:
    """Return what a coordinator must answer before these batches can be appended. A coordinator of this broker verifies at once, but
    adds partitions only with a write to its log.

    Raises Refusal for several producers in a request of version 12 on."""
    adds = version >= ADDS_SINCE
    if not adds and not _verifies_elsewhere(node, transactional_id):
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
            producer_id, producer_epoch, _ = _PRODUCER.unpack_from(records, _PRODUCER_AT)
            if partition.log.ongoing_transaction(producer_id, producer_epoch) is None:
                asked.setdefault((producer_id, producer_epoch), []).append(TopicPartition(name, index))
    if adds and len(asked) > 1:
        raise Refusal(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "the batches of one transaction are of several producers")
    return [VerificationRequest(transactional_id, *producer, tuple(places), adds) for producer, places in asked.items()]


def _verifies_elsewhere(node: Node, transactional_id: str) -> bool:
    return node.config.transaction_partition_verification_enable and node.transactions.is_elsewhere(transactional_id)


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
    adds = version >= ADDS_SINCE
    if len(records) < _PRODUCER_AT + _PRODUCER.size:
        return
    if not adds and not node.config.transaction_partition_verification_enable:
        return
    producer_id, producer_epoch, first_sequence = _PRODUCER.unpack_from(records, _PRODUCER_AT)
    if partition.log.ongoing_transaction(producer_id, producer_epoch) is not None:
        return
    partition.log.check_producer_epoch(producer_id, producer_epoch)
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
    if adds and first_sequence and partition.log.next_sequence(producer_id, producer_epoch) is None:
        # Each transaction has an epoch of its own, so its first batch in a partition has sequence 0.
        raise OutOfOrderSequence(
            f"{partition}: the first batch of producer {producer_id} has sequence number {first_sequence}; expected 0"
        )


def check_offset_commit(
    node: Node,
    transactional_id: str,
    commit: CommitOffsets,
    then: Callable[[ErrorCode, CommitOffsets], object],
    *,
    adds: bool = False,
) -> None:
    """Call `then` with NONE and the commit to write, if the offsets of its group are part of the producer's open transaction.

    `adds`: they become part of it."""
    producer_id, producer_epoch = commit.producer_id, commit.producer_epoch
    if producer_id < 0:
        then(ErrorCode.INVALID_PRODUCER_ID_MAPPING, commit)
        return
    index = node.groups.index_of(commit.group_id)
    partition = node.partitions.get(OFFSETS_TOPIC, index)
    if partition is None or not (adds or node.config.transaction_partition_verification_enable):
        then(ErrorCode.NONE, commit)
        return

    def is_open(partition: HostedPartition = partition) -> bool:
        return partition.log.ongoing_transaction(producer_id, producer_epoch) is not None

    if is_open():
        # The marker may wait for the group's coordinator already. The coordinator asks again when it writes the offsets.
        then(ErrorCode.NONE, replace(commit, still_open=is_open))
        return
    try:
        partition.log.check_producer_epoch(producer_id, producer_epoch)
    except InvalidProducerEpoch as error:
        then(error.code, commit)
        return
    where = TopicPartition(OFFSETS_TOPIC, index)
    asked = VerificationRequest(transactional_id, producer_id, producer_epoch, (where,), adds)
    node.transactions.ask(asked, lambda errors: then(_of_offsets(errors[where]), commit))


def _of_offsets(error: ErrorCode) -> ErrorCode:
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if error is ErrorCode.NETWORK_EXCEPTION else error


def _of_produce(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.CONCURRENT_TRANSACTIONS and version >= ADDS_SINCE:
        return error
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _ABORTABLE_SINCE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return ErrorCode.NOT_ENOUGH_REPLICAS if error in _RETRIABLE else error
