"""The records of `__consumer_offsets`: known bytes of Apache Kafka, every version, and damage."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.coordinator import partitioning
from streamactors.broker.coordinator.partitioning import java_hash, partition_for
from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState, Member
from streamactors.broker.group.group_record import (
    decode_group_key,
    decode_group_value,
    encode_group_key,
    encode_group_value,
)
from streamactors.broker.group.offset_record import (
    CommittedOffset,
    decode_offset_key,
    decode_offset_value,
    encode_offset_key,
    encode_offset_value,
)
from streamactors.broker.protocol import record_schema
from streamactors.broker.protocol.record_schema import CorruptRecord, Form, too_long

TEXT = st.text(max_size=40)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


@given(TEXT, TEXT, INT32)
def test_offset_keys_come_back(group: str, topic: str, partition: int) -> None:
    key = encode_offset_key(group, topic, partition)
    assert key[:2] == b"\x00\x01"
    assert decode_offset_key(key) == (group, topic, partition)


@given(INT64, INT32, TEXT, INT64, st.one_of(st.just(-1), st.integers(0, 2**62)))
def test_offset_values_come_back(offset: int, epoch: int, metadata: str, at_ms: int, expires_ms: int) -> None:
    committed = CommittedOffset(offset, epoch if expires_ms == -1 else -1, metadata, at_ms, expires_ms, 9)
    value = encode_offset_value(committed)
    assert value[:2] == (b"\x00\x03" if expires_ms == -1 else b"\x00\x01")
    assert decode_offset_value(value, 9) == committed


@given(TEXT, TEXT, INT32, st.binary(min_size=1, max_size=9))
def test_bytes_behind_a_key_or_a_value_are_left_as_by_apache_kafka(
    group: str, topic: str, partition: int, more: bytes
) -> None:
    assert decode_offset_key(encode_offset_key(group, topic, partition) + more) == (group, topic, partition)
    assert decode_group_key(encode_group_key(group) + more) == group
    committed = CommittedOffset(5, 6, topic, 7, -1, 9)
    assert decode_offset_value(encode_offset_value(committed) + more, 9) == committed


OFFSET_VALUES = {
    # offset 42, metadata "m", committed at 7
    0: "0000 000000000000002a 0001 6d 0000000000000007",
    1: "0001 000000000000002a 0001 6d 0000000000000007 0000000000000009",
    2: "0002 000000000000002a 0001 6d 0000000000000007",
    3: "0003 000000000000002a 00000005 0001 6d 0000000000000007",
    4: "0004 000000000000002a 00000005 02 6d 0000000000000007 00",
}


@pytest.mark.parametrize("version", OFFSET_VALUES)
def test_offset_values_of_every_version_are_read(version: int) -> None:
    committed = decode_offset_value(bytes.fromhex(OFFSET_VALUES[version]))
    assert (committed.offset, committed.metadata, committed.committed_at_ms) == (42, "m", 7)
    assert committed.leader_epoch == (5 if version >= 3 else -1)
    assert committed.expires_at_ms == (9 if version == 1 else -1)


def member_bytes(version: int) -> str:
    out = "0002 6d31"  # m1
    out += "0002 6931" if version >= 3 else ""  # i1
    out += "0001 63" + "0001 68"  # client c, host h
    out += "0000ea60" if version >= 1 else ""  # rebalance timeout 60 000
    return out + "00002710" + "00000002 aabb" + "00000001 cc"  # session timeout 10 000, subscription, assignment


@pytest.mark.parametrize("version", [0, 1, 2, 3])
def test_group_values_of_every_version_are_read(version: int) -> None:
    state_since = "0000000000000005" if version >= 2 else ""
    value = f"000{version} 0008 636f6e73756d6572 00000003 0005 72616e6765 0002 6d31 {state_since} 00000001"
    group = decode_group_value("g", bytes.fromhex(value + member_bytes(version)), GroupRules())
    assert (group.state, group.generation, group.protocol_type) == (GroupState.STABLE, 3, "consumer")
    assert (group.protocol, group.leader, group.state_since_ms) == ("range", "m1", 5 if version >= 2 else -1)
    assert group.members["m1"] == Member(
        "m1",
        "i1" if version >= 3 else None,
        "c",
        "h",
        60_000 if version >= 1 else 10_000,
        10_000,
        (("range", b"\xaa\xbb"),),
        b"\xcc",
    )


def test_a_flexible_group_value_is_read() -> None:
    value = "0004 09 636f6e73756d6572 00000003 00 00 0000000000000005 01 00"
    group = decode_group_value("g", bytes.fromhex(value), GroupRules())
    assert (group.state, group.generation, group.protocol, group.leader) == (GroupState.EMPTY, 3, None, None)


MEMBERS = st.builds(
    Member,
    member_id=TEXT,
    instance_id=st.none() | TEXT,
    client_id=TEXT,
    client_host=TEXT,
    rebalance_timeout_ms=st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    protocols=st.binary(max_size=20).map(lambda metadata: (("range", metadata),)),
    assignment=st.binary(max_size=20),
)


@given(st.lists(MEMBERS, max_size=4, unique_by=lambda m: m.member_id), st.integers(0, 2**31 - 1), INT64)
def test_groups_come_back(members: list[Member], generation: int, since_ms: int) -> None:
    group = Group(
        "g",
        state=GroupState.STABLE if members else GroupState.EMPTY,
        state_since_ms=since_ms,
        generation=generation,
        protocol_type="consumer",
        protocol="range" if members else None,
        leader=members[0].member_id if members else None,
        members={m.member_id: m for m in members},
        stored=True,
    )
    value = encode_group_value(group, {m.member_id: m.assignment for m in members})
    assert decode_group_value("g", value, group.rules) == group
    assert decode_group_key(encode_group_key("g")) == "g"


@given(st.binary(max_size=200))
def test_damaged_records_are_refused_and_nothing_else(data: bytes) -> None:
    for decode in (
        decode_offset_key,
        decode_offset_value,
        decode_group_key,
        lambda d: decode_group_value("g", d, GroupRules()),
    ):
        try:
            decode(data)
        except CorruptRecord:
            pass


def test_a_lying_count_costs_nothing() -> None:
    with pytest.raises(CorruptRecord, match="2147483647 items"):
        record_schema.array(record_schema.INT32).read(b"\x7f\xff\xff\xff", 0, Form(0, flexible=False))


@pytest.mark.parametrize("version", [5, -1, 32_767])
def test_a_version_from_the_future_is_named(version: int) -> None:
    data = version.to_bytes(2, "big", signed=True) + bytes(40)
    with pytest.raises(CorruptRecord, match=f"version {version} .*versions 0 to 4"):
        decode_offset_value(data)
    with pytest.raises(CorruptRecord, match=f"version {version} of group 'g'"):
        decode_group_value("g", data, GroupRules())


@pytest.mark.parametrize(
    ("text", "hashed"),
    [("", 0), ("a", 97), ("test-group", 627841412), ("consumer-group-1", 147483020), ("ünïcødé", 3685747319),
     ("\U0001f600", 1772899)],
)  # fmt: skip
def test_java_hashes(text: str, hashed: int) -> None:
    assert java_hash(text) == hashed


def test_the_partition_is_that_of_the_absolute_value_as_java_takes_it() -> None:
    assert partition_for("ünïcødé", 50) == (2**32 - 3685747319) % 50
    assert java_hash("polygenelubricants") == 2**31  # the one int without an absolute value
    assert partition_for("polygenelubricants", 50) == 0


def test_names_too_long_for_a_record_are_noticed() -> None:
    assert not too_long(None)
    assert not too_long("x" * 32_767)
    assert too_long("x" * 32_768)
    assert too_long("ü" * 16_384)


def test_long_ids_are_not_kept() -> None:
    before = partitioning._kept.cache_info().currsize
    assert partition_for("x" * 257, 50) == partitioning._partition_for("x" * 257, 50)
    assert partitioning._kept.cache_info().currsize == before
