"""Metadata records on disk are Apache Kafka's: read what it wrote, write what it reads, survive any damage."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamactors.broker.controller.metadata_codec import decode_record, encode_record
from streamactors.broker.controller.metadata_record import (
    BrokerRegistrationChange,
    Config,
    Endpoint,
    Feature,
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
from streamactors.broker.controller.wire_type import CorruptMetadata

# values out of the __cluster_metadata log of an Apache Kafka 4.1.1
TOPIC_ID = uuid.UUID("5c0e3655-9416-4577-919e-55df15c76d12")
BY_KAFKA: list[tuple[str, MetadataRecord]] = [
    ("010c00116d657461646174612e76657273696f6e001b00", FeatureLevel("metadata.version", 27)),
    ("0104000401146d696e2e696e73796e632e7265706c69636173023100", Config(4, "", "min.insync.replicas", "1")),
    ("011100000000010000000000000009010001ff", BrokerRegistrationChange(1, 9, fenced=-1)),
    ("010200046366675c0e365594164577919e55df15c76d1200", Topic("cfg", TOPIC_ID)),
    (
        "010302000000015c0e365594164577919e55df15c76d1202000000010200000001010100000001000000000000000002"
        "bb93b7dde6162c6ebac1eeef2e341e6b00",
        Partition(
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
        PartitionChange(0, uuid.UUID("1d3a05e9-7a09-4d77-9fbf-8d7c100529f6"), isr=(), leader=-1),
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
    assert isinstance(record, RegisterBroker)
    assert record.endpoints == (Endpoint("PLAINTEXT", "127.0.0.1", 19092),)
    assert Feature("metadata.version", 7, 27) in record.features
    assert (record.broker_id, record.broker_epoch, record.rack, record.fenced) == (1, 9, None, True)


def test_what_kafka_wrote_at_our_versions_is_written_byte_for_byte() -> None:
    for written, record in BY_KAFKA[:4]:
        assert encode_record(record).hex() == written


uuids, ints, words = st.uuids(), st.integers(-1, 2**31 - 1), st.text(max_size=20)
brokers = st.lists(ints, max_size=4).map(tuple)
records = st.one_of(
    st.builds(Topic, words, uuids),
    st.builds(RemoveTopic, uuids),
    st.builds(Partition, ints, uuids, brokers, brokers, ints, ints, ints),
    st.builds(PartitionChange, ints, uuids, st.none() | brokers, st.none() | ints, st.none() | brokers),
    st.builds(Config, st.integers(0, 127), words, words, st.none() | words),
    st.builds(FeatureLevel, words, st.integers(0, 99)),
    st.builds(ProducerIds, ints, ints, ints),
    st.builds(UnregisterBroker, ints, ints),
    st.builds(BrokerRegistrationChange, ints, ints, st.none() | st.sampled_from([-1, 1])),
    st.builds(NoOp),
    st.builds(
        RegisterBroker,
        ints,
        uuids,
        ints,
        endpoints=st.lists(st.builds(Endpoint, words, words, st.integers(0, 65535), st.integers(0, 3)), max_size=3).map(
            tuple
        ),
        features=st.lists(st.builds(Feature, words, st.integers(0, 9), st.integers(0, 9)), max_size=3).map(tuple),
        rack=st.none() | words,
        fenced=st.booleans(),
        log_dirs=st.lists(uuids, max_size=2).map(tuple),
    ),
)


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
    except CorruptMetadata:
        pass


def test_records_of_another_kind_or_frame_are_refused_by_number() -> None:
    with pytest.raises(CorruptMetadata, match="unknown kind 99"):
        decode_record(b"\x01\x63\x00\x00")
    with pytest.raises(CorruptMetadata, match="frame 2"):
        decode_record(b"\x02\x02\x00\x00")
    with pytest.raises(CorruptMetadata, match="1 bytes too many"):
        decode_record(encode_record(NoOp()) + b"x")


def test_an_array_longer_than_its_record_is_refused_before_it_is_built() -> None:
    lying = b"\x01\x03\x01" + b"\0\0\0\0" + TOPIC_ID.bytes + b"\xff\xff\xff\xff\x0f"
    with pytest.raises(CorruptMetadata, match="an array of"):
        decode_record(lying)
