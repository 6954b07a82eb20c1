"""A transactional id in `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue.

Owner: the transaction coordinator. Key: version 0, transactional id. Value versions 0 and 1 (flexible) are read. As in Apache Kafka
version 1 is written from transaction.version 1 on, and version 0 before. A null value is a tombstone and deletes the id."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Annotated, Final, NamedTuple

from streamactors.broker.protocol.record_schema import (
    INT8,
    INT16,
    INT32,
    INT64,
    TEXT,
    CorruptRecord,
    Field,
    Versioned,
    array,
    structure,
)
from streamactors.broker.records.batch import RecordBatch
from streamactors.broker.transaction.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
)
from streamactors.log_limit import log_limited

_log = logging.getLogger("streamactors.broker.transaction")

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 1


class _Key(NamedTuple):
    transactional_id: Annotated[str, TEXT]


class _Topic(NamedTuple):
    topic: Annotated[str, TEXT]
    partitions: Annotated[Sequence[int], array(INT32)]


class _Value(NamedTuple):
    producer_id: Annotated[int, INT64]
    producer_epoch: Annotated[int, INT16]
    timeout_ms: Annotated[int, INT32]
    state: Annotated[int, INT8]
    topics: Annotated[Sequence[_Topic] | None, array(structure(_Topic))]
    updated_at_ms: Annotated[int, INT64]
    started_at_ms: Annotated[int, INT64]
    previous_producer_id: Annotated[int, Field(INT64, tag=0)] = NO_PRODUCER_ID
    next_producer_id: Annotated[int, Field(INT64, tag=1)] = NO_PRODUCER_ID
    client_version: Annotated[int, Field(INT16, tag=2)] = 0
    next_producer_epoch: Annotated[int, Field(INT16, tag=3)] = NO_PRODUCER_EPOCH


_KEY: Final = Versioned("a transactional id's key", structure(_Key), highest=KEY_VERSION)
_VALUE: Final = Versioned("transactional id", structure(_Value), highest=VALUE_VERSION, flexible_since=VALUE_VERSION)


def encode_transaction_key(transactional_id: str) -> bytes:
    """Return the record key of a transactional id."""
    return _KEY.encode(_Key(transactional_id), KEY_VERSION)


def decode_transaction_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a key of another kind. Raises CorruptRecord."""
    if len(data) >= 2 and data[:2] != b"\x00\x00":
        return None
    return _KEY.decode(data).transactional_id


def encode_transaction_value(txn: Transaction, transaction_version: int = 0) -> bytes:
    """Return the record value of a transactional id, in the format of the cluster's transaction.version."""
    version = VALUE_VERSION if transaction_version >= 1 else 0
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(txn.partitions):
        by_topic.setdefault(topic, []).append(partition)
    value = _Value(
        txn.producer_id,
        txn.producer_epoch,
        txn.timeout_ms,
        txn.state,
        None if txn.state is TransactionState.EMPTY else [_Topic(*each) for each in by_topic.items()],
        txn.updated_at_ms,
        txn.started_at_ms,
        txn.previous_producer_id,
        txn.next_producer_id,
        txn.client_version,
        txn.next_producer_epoch,
    )
    return _VALUE.encode(value, version)


def decode_transaction_value(transactional_id: str, data: bytes) -> Transaction:
    """Return the transactional id of a record. Raises CorruptRecord, also for an unknown version."""
    value = _VALUE.decode(data, transactional_id)
    if value.state not in TransactionState._value2member_map_:
        raise CorruptRecord(f"transactional id {transactional_id!r} is in unknown state {value.state}")
    return Transaction(
        transactional_id,
        value.producer_id,
        value.producer_epoch,
        previous_producer_id=value.previous_producer_id,
        next_producer_id=value.next_producer_id,
        next_producer_epoch=value.next_producer_epoch,
        timeout_ms=value.timeout_ms,
        state=TransactionState(value.state),
        partitions=frozenset(TopicPartition(name, each) for name, numbers in value.topics or () for each in numbers),
        started_at_ms=value.started_at_ms,
        updated_at_ms=value.updated_at_ms,
        client_version=value.client_version,
    )


def load_transactions(batches: Iterable[RecordBatch], name: str) -> dict[str, Transaction]:
    """Fold a partition: the last record of each id counts. An unreadable record is logged and skipped."""
    transactions: dict[str, Transaction] = {}
    for batch in batches:
        for record in batch.records() if batch.count and not batch.is_control else ():
            try:
                transactional_id = decode_transaction_key(record.key or b"")
                if transactional_id is None:
                    continue
                if record.value is None:
                    transactions.pop(transactional_id, None)
                else:
                    transactions[transactional_id] = decode_transaction_value(transactional_id, record.value)
            except CorruptRecord as error:
                log_limited(
                    _log, logging.ERROR, name,
                    "%s: the record at offset %d is left out: %s", name, record.offset, error,
                )  # fmt: skip
    return transactions
