"""Metadata records to bytes and back, in Apache Kafka's own format, so that its tools read our log and we read its.

Owner: metadata_log. A record's value is a frame (varint 1), the record's key and version (varints) and its fields in
Kafka's flexible encoding. Written at the version in VERSION, read at every version up to it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final

from streamactors.broker.controller.metadata_record import (
    BrokerRegistrationChange,
    Config,
    FeatureLevel,
    MetadataRecord,
    NoOp,
    Partition,
    PartitionChange,
    ProducerIds,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
)
from streamactors.broker.controller.wire_type import CorruptMetadata, read_tags, read_unsigned, write_unsigned

FRAME: Final = 1

_BY_KEY: Final[dict[int, type[MetadataRecord]]] = {
    record.KEY: record
    for record in (
        RegisterBroker,
        UnregisterBroker,
        Topic,
        Partition,
        Config,
        PartitionChange,
        RemoveTopic,
        FeatureLevel,
        ProducerIds,
        BrokerRegistrationChange,
        NoOp,
    )
}
_DEFAULTS: Final = {record: {f.name: f.default for f in fields(record)} for record in _BY_KEY.values()}
# written by Apache Kafka's controllers only: migration state, controller registration, transaction marks of the log
_WITHOUT_MEANING_HERE: Final = frozenset({21, 23, 24, 27})


def encode_record(record: MetadataRecord) -> bytes:
    """Return the value of a metadata record."""
    out = bytearray()
    for number in (FRAME, record.KEY, record.VERSION):
        write_unsigned(out, number)
    tagged: list[tuple[int, bytes]] = []
    for field in record.WIRE:
        value = getattr(record, field.name)
        if field.tag is None:
            field.type.write(out, value)
        elif value != _DEFAULTS[type(record)][field.name]:
            encoded = bytearray()
            field.type.write(encoded, value)
            tagged.append((field.tag, bytes(encoded)))
    write_unsigned(out, len(tagged))
    for tag, data in tagged:
        write_unsigned(out, tag)
        write_unsigned(out, len(data))
        out += data
    return bytes(out)


def decode_record(value: bytes) -> MetadataRecord:
    """Return the record that a value of the metadata log holds. Raises CorruptMetadata."""
    frame, at = read_unsigned(value, 0)
    key, at = read_unsigned(value, at)
    version, at = read_unsigned(value, at)
    if frame != FRAME:
        raise CorruptMetadata(f"a metadata record in frame {frame}; only {FRAME} is known")
    if key in _WITHOUT_MEANING_HERE:
        return NoOp()
    record = _BY_KEY.get(key)
    if record is None:
        raise CorruptMetadata(f"metadata record of unknown kind {key}; it was written by a newer or another broker")
    values: dict[str, Any] = {}
    for field in record.WIRE:
        if field.tag is None and version >= field.since:
            values[field.name], at = field.type.read(value, at)
    tagged, at = read_tags(value, at)
    for field in record.WIRE:
        if field.tag is not None and field.tag in tagged:
            values[field.name], _ = field.type.read(tagged[field.tag], 0)
    if at != len(value):
        raise CorruptMetadata(f"{record.__name__} record of version {version}: {len(value) - at} bytes too many")
    return record(**values)
