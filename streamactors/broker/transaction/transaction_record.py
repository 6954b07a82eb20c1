"""A transactional id in `__transaction_state`: Kafka's TransactionLogKey and TransactionLogValue.

Owner: the transaction coordinator. Key: version 0, transactional id. Value version 0 and 1 (flexible) are read, 0
is written, as Apache Kafka does until transaction.version 1 is finalised. A null value is a tombstone: the id is
forgotten."""

from __future__ import annotations

from typing import Final

from streamactors.broker.coordinator.record_codec import CorruptRecord, Reader, Writer
from streamactors.broker.transaction.transaction import (
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionState,
)

KEY_VERSION: Final = 0
VALUE_VERSION: Final = 0

_PREVIOUS_PRODUCER_ID: Final = 0  # tags of the flexible version's optional fields
_NEXT_PRODUCER_ID: Final = 1
_CLIENT_VERSION: Final = 2


def encode_transaction_key(transactional_id: str) -> bytes:
    """Return the record key of a transactional id."""
    return Writer(KEY_VERSION).string(transactional_id).finish()


def decode_transaction_key(data: bytes) -> str | None:
    """Return the transactional id, or None for a key of another kind. Raises CorruptRecord."""
    reader = Reader(data)
    return reader.string() if reader.int16() == KEY_VERSION else None


def encode_transaction_value(txn: Transaction, version: int = VALUE_VERSION) -> bytes:
    """Return the record value of a transactional id."""
    out = Writer(version, flexible=version >= 1)
    out.int64(txn.producer_id).int16(txn.producer_epoch).int32(txn.timeout_ms).int8(txn.state)
    if txn.state is TransactionState.EMPTY:
        out.count(None)
    else:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in sorted(txn.partitions):
            by_topic.setdefault(topic, []).append(partition)
        out.count(len(by_topic))
        for topic, partitions in by_topic.items():
            out.string(topic).count(len(partitions))
            for partition in partitions:
                out.int32(partition)
            out.tagged_fields()
    out.int64(txn.updated_at_ms).int64(txn.started_at_ms)
    return out.tagged_fields(_tagged(txn)).finish()


def decode_transaction_value(transactional_id: str, data: bytes) -> Transaction:
    """Return the transactional id a record holds. Raises CorruptRecord, also for a version from the future."""
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 1:
        raise CorruptRecord(
            f"version {version} of transactional id {transactional_id!r} is unknown; 0 and 1 can be read"
        )
    reader.flexible = version >= 1
    producer_id, producer_epoch, timeout_ms, status = reader.int64(), reader.int16(), reader.int32(), reader.int8()
    if status not in TransactionState._value2member_map_:
        raise CorruptRecord(f"transactional id {transactional_id!r} is in unknown state {status}")

    def topic() -> list[TopicPartition]:
        name = reader.string()
        partitions = [TopicPartition(name, partition) for partition in reader.array(reader.int32)]
        reader.tagged_fields()
        return partitions

    partitions = frozenset(partition for part in reader.array(topic) for partition in part)
    updated_at_ms, started_at_ms = reader.int64(), reader.int64()
    tagged = reader.tagged_fields()
    return Transaction(
        transactional_id,
        producer_id,
        producer_epoch,
        previous_producer_id=_int(tagged.get(_PREVIOUS_PRODUCER_ID), NO_PRODUCER_ID),
        next_producer_id=_int(tagged.get(_NEXT_PRODUCER_ID), NO_PRODUCER_ID),
        timeout_ms=timeout_ms,
        state=TransactionState(status),
        partitions=partitions,
        started_at_ms=started_at_ms,
        updated_at_ms=updated_at_ms,
        client_version=_int(tagged.get(_CLIENT_VERSION), 0),
    )


def _tagged(txn: Transaction) -> dict[int, bytes]:
    fields = {}
    if txn.previous_producer_id != NO_PRODUCER_ID:
        fields[_PREVIOUS_PRODUCER_ID] = txn.previous_producer_id.to_bytes(8, "big", signed=True)
    if txn.next_producer_id != NO_PRODUCER_ID:
        fields[_NEXT_PRODUCER_ID] = txn.next_producer_id.to_bytes(8, "big", signed=True)
    if txn.client_version:
        fields[_CLIENT_VERSION] = txn.client_version.to_bytes(2, "big", signed=True)
    return fields


def _int(data: bytes | None, default: int) -> int:
    return default if data is None else int.from_bytes(data, "big", signed=True)
