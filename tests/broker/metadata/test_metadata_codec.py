"""Metadata records on disk are Apache Kafka's: read what it wrote, write what it reads, survive any damage."""

from __future__ import annotations

import uuid
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.metadata.metadata_codec import RECORDS, NewerRecord, decode_record, encode_record
from streamactors.broker.metadata.metadata_record import (
    BrokerRegistration,
    BrokerRegistrationChange,
    ConfigRecord,
    Endpoint,
    Feature,
    FeatureLevel,
    MetadataRecord,
    NoOp,
    PartitionChange,
    PartitionRecord,
    TopicRecord,
)
from streamactors.broker.metadata.security_record import QuotaEntity
from streamactors.broker.protocol.record_schema import (
    BOOLEAN,
    BYTES,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    NULLABLE_TEXT,
    TEXT,
    UINT16,
    UUID,
    CorruptRecord,
    Field,
)

# values out of the __cluster_metadata log of an Apache Kafka 4.1.1
TOPIC_ID = uuid.UUID("5c0e3655-9416-4577-919e-55df15c76d12")
BY_KAFKA: list[tuple[str, MetadataRecord]] = [
    ("010c00116d657461646174612e76657273696f6e001b00", FeatureLevel("metadata.version", 27)),
    ("0104000401146d696e2e696e73796e632e7265706c69636173023100", ConfigRecord(4, "", "min.insync.replicas", "1")),
    ("011100000000010000000000000009010001ff", BrokerRegistrationChange(1, 9, fenced=-1)),
    ("010200046366675c0e365594164577919e55df15c76d1200", TopicRecord("cfg", TOPIC_ID)),
    (
        "010302000000015c0e365594164577919e55df15c76d1202000000010200000001010100000001000000000000000002"
        "bb93b7dde6162c6ebac1eeef2e341e6b00",
        PartitionRecord(
            partition=1,
            topic_id=TOPIC_ID,
            replicas=(1,),
            isr=(1,),
            leader=1,
            directories=(uuid.UUID("bb93b7dd-e616-2c6e-bac1-eeef2e341e6b"),),
        ),
    ),
    (
        "010502000000001d3a05e97a094d779fbf8d7c100529f6040001010104ffffffff0605020000000107050200000001",
        PartitionChange(
            0, uuid.UUID("1d3a05e9-7a09-4d77-9fbf-8d7c100529f6"), isr=(), leader=-1, elr=(1,), last_known_elr=(1,)
        ),
    ),
]


@pytest.mark.parametrize(("written", "record"), BY_KAFKA)
def test_a_record_written_by_kafka_is_read(written: str, record: MetadataRecord) -> None:
    assert decode_record(bytes.fromhex(written)) == record


def test_a_registration_written_by_kafka_is_read_with_all_its_fields() -> None:
    record = decode_record(
        bytes.fromhex(
            "0100030000000100fff7554affab43e2a7bf9058d33409bc0000000000000009020a504c41494e544558540a3132372e302e302e31"
            "4a94000000070e67726f75702e76657273696f6e00000001000e6b726166742e76657273696f6e0000000100116d65746164617461"
            "2e76657273696f6e0007001b000e73686172652e76657273696f6e0000000100147472616e73616374696f6e2e76657273696f6e00"
            "0000020021656c696769626c652e6c65616465722e7265706c696361732e76657273696f6e000000010000010001001102bb93b7dd"
            "e6162c6ebac1eeef2e341e6b"
        )
    )
    assert isinstance(record, BrokerRegistration)
    assert record.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 19092),)
    assert Feature("metadata.version", 7, 27) in record.features
    assert (record.broker_id, record.broker_epoch, record.rack, record.fenced) == (1, 9, None, True)


def test_records_of_kafka_are_written_byte_for_byte() -> None:
    for written, record in BY_KAFKA[:4]:
        assert encode_record(record).hex() == written


uuids, words = st.uuids(), st.text(max_size=20)
OF_WIRE_TYPE: dict[int, st.SearchStrategy[Any]] = {
    id(BOOLEAN): st.booleans(),
    id(INT8): st.integers(-128, 127),
    id(INT16): st.integers(-(2**15), 2**15 - 1),
    id(UINT16): st.integers(0, 65535),
    id(INT32): st.integers(-(2**31), 2**31 - 1),
    id(INT64): st.integers(-(2**63), 2**63 - 1),
    id(FLOAT64): st.floats(allow_nan=False),
    id(UUID): uuids,
    id(TEXT): words,
    id(NULLABLE_TEXT): st.none() | words,
    id(BYTES): st.binary(max_size=20),
}
STRUCTURES = (Endpoint, Feature, QuotaEntity)


def values_of(hint: Any, stored: Any) -> st.SearchStrategy[Any]:
    """Return the values that a field of this type can have on the wire."""
    wire = stored.type if isinstance(stored, Field) else stored
    if id(wire) in OF_WIRE_TYPE:
        found = OF_WIRE_TYPE[id(wire)]
    else:  # an array
        (item,) = [each for each in get_args(hint) if each is not NoneType] if get_origin(hint) is not tuple else [hint]
        inner = get_args(item)[0]
        of_inner = {int: OF_WIRE_TYPE[id(INT32)], uuid.UUID: uuids, str: words}
        found = st.lists(made_of(inner) if inner in STRUCTURES else of_inner[inner], max_size=3).map(tuple)
    return (
        st.none() | found
        if isinstance(stored, Field) and stored.tag is not None and NoneType in get_args(hint)
        else found
    )


def made_of(kind: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(kind, include_extras=True)
    fields = {name: hint for name, hint in hints.items() if get_origin(hint) is Annotated}
    return st.builds(kind, **{name: values_of(*get_args(hint)[:2]) for name, hint in fields.items()})


records = st.one_of([made_of(kind) for kind in RECORDS])


def test_all_27_kinds_of_kafka_are_known_and_no_two_share_a_key() -> None:
    assert len({record.KEY for record in RECORDS}) == len(RECORDS) == 27
    assert [record.KEY for record in RECORDS] == sorted(record.KEY for record in RECORDS)


@given(records)
def test_every_record_survives_the_way_to_bytes_and_back(record: MetadataRecord) -> None:
    assert decode_record(encode_record(record)) == record


@settings(max_examples=200)
@given(records, st.data())
def test_a_damaged_record_is_an_error_and_nothing_else(record: MetadataRecord, data: st.DataObject) -> None:
    value = bytearray(encode_record(record))
    for _ in range(data.draw(st.integers(1, 3))):
        value[data.draw(st.integers(0, len(value) - 1))] = data.draw(st.integers(0, 255))
    try:
        decode_record(bytes(value[: data.draw(st.integers(0, len(value)))]))
    except CorruptRecord:
        pass


def test_records_of_another_kind_or_frame_are_refused_by_number() -> None:
    with pytest.raises(CorruptRecord, match="unknown kind 99"):
        decode_record(b"\x01\x63\x00\x00")
    with pytest.raises(CorruptRecord, match="frame 2"):
        decode_record(b"\x02\x02\x00\x00")
    with pytest.raises(CorruptRecord, match="1 bytes too many"):
        decode_record(encode_record(NoOp()) + b"x")


def test_a_record_of_a_newer_version_is_refused_as_kafka_does() -> None:
    value = bytearray(encode_record(TopicRecord("t", TOPIC_ID)))
    value[2] = 1
    with pytest.raises(CorruptRecord, match="TopicRecord record of version 1, and versions up to 0 are known"):
        decode_record(bytes(value))


def test_a_record_of_a_newer_node_says_how_to_format_a_cluster_for_this_broker() -> None:
    # "versions up to 3 are known": a user could do nothing with it.
    value = bytearray(encode_record(TopicRecord("t", TOPIC_ID)))
    value[2] = 1
    for written in (bytes(value), b"\x01\x1e\x00\x00"):  # no kind of Kafka 4.4
        with pytest.raises(NewerRecord, match=r"--release-version 4\.4"):
            decode_record(written)


def test_a_record_takes_the_lowest_version_that_has_its_fields_or_the_one_asked_for() -> None:
    assert encode_record(PartitionChange(0, TOPIC_ID, isr=(1,)))[2] == 0
    assert encode_record(PartitionChange(0, TOPIC_ID, directories=(TOPIC_ID,)))[2] == 1
    assert encode_record(PartitionChange(0, TOPIC_ID, elr=(1,)))[2] == 2
    assert encode_record(PartitionChange(0, TOPIC_ID, isr=(1,)), 2)[2] == 2
    with pytest.raises(ValueError, match="cannot be written in version 1; it takes version 2"):
        encode_record(PartitionChange(0, TOPIC_ID, elr=(1,)), 1)
    with pytest.raises(ValueError, match="version 3"):
        encode_record(PartitionChange(0, TOPIC_ID, elr=(1,)), 3)


def test_an_array_longer_than_its_record_is_refused_before_it_is_built() -> None:
    lying = b"\x01\x03\x01" + b"\0\0\0\0" + TOPIC_ID.bytes + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(CorruptRecord, match="an array of"):
        decode_record(lying)
