"""Encodes and decodes metadata records in Apache Kafka's format: each of the two brokers reads the other's log.

Owner: the metadata log and its snapshots. A record's value is a frame (varint 1), the record's key and version (varints) and
its fields in Kafka's flexible encoding. All 27 kinds of Kafka 4.4 are known. An unknown kind or version is an error, as in Kafka:
a broker that skips a record would differ from the others.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from streamactors.broker.metadata import metadata_record as cluster
from streamactors.broker.metadata import security_record as security
from streamactors.broker.metadata import transaction_record as transaction
from streamactors.broker.metadata.metadata_record import MetadataRecord
from streamactors.broker.protocol.primitives import uvarint
from streamactors.broker.protocol.record_schema import (
    CorruptRecord,
    Form,
    WireType,
    lowest_version,
    read_unsigned,
    structure,
)

FRAME: Final = 1

RECORDS: Final[tuple[type[MetadataRecord], ...]] = (
    cluster.BrokerRegistration,
    cluster.UnregisterBroker,
    cluster.TopicRecord,
    cluster.PartitionRecord,
    cluster.ConfigRecord,
    cluster.PartitionChange,
    cluster.FenceBroker,
    cluster.UnfenceBroker,
    cluster.RemoveTopic,
    security.DelegationToken,
    security.UserScramCredential,
    cluster.FeatureLevel,
    security.ClientQuota,
    cluster.ProducerIdsRecord,
    cluster.BrokerRegistrationChange,
    security.AccessControlEntry,
    security.RemoveAccessControlEntry,
    cluster.NoOp,
    cluster.ZkMigrationState,
    security.RemoveUserScramCredential,
    transaction.BeginTransaction,
    transaction.EndTransaction,
    transaction.AbortTransaction,
    security.RemoveDelegationToken,
    cluster.ControllerRegistration,
    cluster.ClearElr,
    cluster.UnregisterController,
)
"""Every kind of record, in the order of the keys."""

NEWEST_RELEASE: Final = "4.4"
"""The newest release of Apache Kafka whose metadata records are known."""
AS_THIS_BROKER: Final = f"--release-version {NEWEST_RELEASE}"
"""The options of kafka-storage format for the controllers of a cluster that this broker can join."""
NEWER: Final = f"a newer node wrote it: the metadata.version of its cluster is above 33 (4.4-IV2). Format the controllers of the cluster with {AS_THIS_BROKER}"
_BY_KEY: Final = {record.KEY: record for record in RECORDS}


class NewerRecord(CorruptRecord):
    """A record that this version of the broker does not know."""


@cache
def _wire_type(key: int) -> WireType[Any]:
    """Return the wire type of a kind of record; made on its first use, because most brokers meet few kinds."""
    return structure(_BY_KEY[key])


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """Return the value of a metadata record, by default in the lowest version from VERSION that has all its fields.

    Raises ValueError if the record has a field that `version` does not have, or if there is no such version."""
    needed = lowest_version(record, record.VERSION if version is None else version)
    if version is not None and not needed == version <= record.NEWEST:
        raise ValueError(
            f"{record} cannot be written in version {version}; it takes version {needed} of {record.NEWEST}"
        )
    out = bytearray()
    for number in (FRAME, record.KEY, needed):
        out += uvarint(number)
    _wire_type(record.KEY).write(out, record, Form(needed, True))
    return bytes(out)


def decode_record(value: bytes) -> MetadataRecord:
    """Return the record of a value in the metadata log. Raises CorruptRecord."""
    frame, at = read_unsigned(value, 0)
    key, at = read_unsigned(value, at)
    version, at = read_unsigned(value, at)
    if frame != FRAME:
        raise CorruptRecord(f"a metadata record in frame {frame}; only {FRAME} is known")
    if key not in _BY_KEY:
        raise NewerRecord(f"a metadata record of unknown kind {key}; {NEWER}")
    kind = _BY_KEY[key]
    if version > kind.NEWEST:
        raise NewerRecord(
            f"a {kind.__name__} record of version {version}, and versions up to {kind.NEWEST} are known; {NEWER}"
        )
    record: MetadataRecord
    record, at = _wire_type(key).read(value, at, Form(version, True))
    if at != len(value):
        raise CorruptRecord(f"{kind.__name__} record of version {version}: {len(value) - at} bytes too many")
    return record
