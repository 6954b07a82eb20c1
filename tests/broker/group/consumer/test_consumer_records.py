"""The records of a consumer group: bytes that Apache Kafka 4.4.0 wrote, what they say, and their fold."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.group.consumer.consumer_fold import fold
from streamactors.broker.group.consumer.consumer_group import (
    ClassicMember,
    ClassicProtocol,
    ConsumerGroup,
    ConsumerGroupState,
    MemberState,
    ResolvedRegex,
)
from streamactors.broker.group.consumer.consumer_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    OLD_METADATA,
    REGEX,
    TARGET,
    TARGET_EPOCH,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    RegexValue,
    StoredClassic,
    StoredOwned,
    StoredPartitions,
    StoredProtocol,
    TargetEpochValue,
    TargetValue,
    decode,
    encode,
)
from streamactors.broker.protocol.record_schema import CorruptRecord

T = uuid.UUID(int=7)

text = st.text(max_size=5)
epochs = st.integers(-2, 2**31 - 1)
partitions = st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple)
owned = st.lists(
    st.builds(StoredOwned, st.uuids(), partitions, st.none() | partitions.filter(bool)), max_size=3
).map(tuple)  # fmt: skip
classic = st.builds(
    StoredClassic,
    st.integers(0, 2**31 - 1),
    st.lists(st.builds(StoredProtocol, text, st.binary(max_size=5)), max_size=2).map(tuple),
)
values = {
    EPOCH: st.builds(EpochValue, epochs, st.integers(-(2**63), 2**63 - 1)),
    MEMBER: st.builds(
        MemberValue,
        st.none() | text, st.none() | text, text, text, st.lists(text, max_size=3).map(tuple), st.none() | text, epochs,
        st.none() | text, st.none() | classic,
    ),
    TARGET_EPOCH: st.builds(TargetEpochValue, epochs, st.integers(0, 2**63 - 1)),
    TARGET: st.builds(
        TargetValue, st.lists(st.builds(StoredPartitions, st.uuids(), partitions), max_size=3).map(tuple)
    ),
    CURRENT: st.builds(CurrentValue, epochs, epochs, st.integers(0, 127), owned, owned),
    REGEX: st.builds(
        RegexValue, st.lists(text, max_size=3).map(tuple), st.integers(0, 2**62), st.integers(0, 2**62)
    ),
}  # fmt: skip
records = st.sampled_from(sorted(values)).flatmap(
    lambda kind: st.builds(
        ConsumerRecord, st.just(kind), text, text if kind not in (EPOCH, TARGET_EPOCH) else st.just(""), values[kind]
    )
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: ConsumerRecord) -> None:
    key, value = encode(record)
    assert int.from_bytes(key[:2], "big") == record.kind
    assert decode(record.kind, key, value) == record


@given(records, st.data())
def test_a_damaged_record_is_corrupt_and_nothing_else(record: ConsumerRecord, data: st.DataObject) -> None:
    key, value = encode(record)
    assert value is not None
    cut = data.draw(st.integers(0, len(value) - 1))
    try:
        decode(record.kind, key, value[:cut])
    except CorruptRecord:
        pass


@pytest.mark.parametrize(
    ("record", "key", "value"),
    [
        (ConsumerRecord(EPOCH, "g", "", EpochValue(2, -8349406347711335134)),
         "0003000167", "0000" "00000002" "01" "00" "08" + (-8349406347711335134 % 2**64).to_bytes(8, "big").hex()),
        (ConsumerRecord(TARGET_EPOCH, "g", "", TargetEpochValue(3)), "0006000167", "0000" "00000003" "00"),
        (ConsumerRecord(OLD_METADATA, "g"), "0004000167", None),
        (ConsumerRecord(CURRENT, "g", "m", CurrentValue(2, 0, 0, (StoredOwned(T, (0,), (2,)),), ())),
         "00080001670001" "6d",
         "0000" "00000002" "00000000" "00" "02" + T.hex + "0200000000" "01" "00" "05" "02" "00000002" "01" "00"),
        (ConsumerRecord(MEMBER, "g", "m", MemberValue(None, None, "c", "/h", ("t",), "", 5, None, None)),
         "00050001670001" "6d", "0000" "00" "00" "0263" "032f68" "02" "0274" "01" "00000005" "00" "01000100"),
    ],
)  # fmt: skip
def test_the_bytes_of_a_record(record: ConsumerRecord, key: str, value: str | None) -> None:
    encoded = encode(record)
    assert encoded[0].hex() == key
    assert (None if encoded[1] is None else encoded[1].hex()) == value


def test_the_fold_of_a_join() -> None:
    joined = [
        ConsumerRecord(MEMBER, "g", "m", MemberValue("i", None, "c", "/h", ("t",), "", 5, "range")),
        ConsumerRecord(EPOCH, "g", "", EpochValue(2, 5)),
        ConsumerRecord(TARGET, "g", "m", TargetValue((StoredPartitions(T, (0, 1)),))),
        ConsumerRecord(TARGET_EPOCH, "g", "", TargetEpochValue(2, 99)),
    ]
    group = fold(ConsumerGroup("g"), joined)
    assert group is not None
    assert (group.state, group.epoch, group.metadata_hash) == (ConsumerGroupState.RECONCILING, 2, 5)
    group = fold(
        group, [ConsumerRecord(CURRENT, "g", "m", CurrentValue(2, 0, 0, (StoredOwned(T, (0, 1), (2, 2)),), ()))]
    )
    assert group is not None
    assert group.state is ConsumerGroupState.STABLE
    assert group.owner_epoch(T, 1) == 2
    assert group.owner_epoch(T, 2) == -1
    member = group.static_member("i")
    assert member is not None
    assert (member.member_id, member.state, member.assignment_epoch(T, 0)) == ("m", MemberState.STABLE, 2)
    assert group.subscribed_topics == {"t"}
    left = fold(
        group,
        [
            ConsumerRecord(CURRENT, "g", "m"),
            ConsumerRecord(TARGET, "g", "m"),
            ConsumerRecord(MEMBER, "g", "m"),
            ConsumerRecord(EPOCH, "g", "", EpochValue(3)),
        ],
    )
    assert left is not None
    assert (left.state, left.epoch, left.owners, left.static_ids) == (ConsumerGroupState.EMPTY, 3, {}, {})
    assert group.members, "the fold changed the group it was given"
    assert fold(left, [ConsumerRecord(EPOCH, "g")]) is None


def test_the_fold_keeps_regular_expressions_and_classic_members() -> None:
    stored = StoredClassic(9, (StoredProtocol("range", b"x"),))
    group = fold(
        ConsumerGroup("g"),
        [
            ConsumerRecord(MEMBER, "g", "m", MemberValue(None, "r", "c", "/h", (), "t.*", 5, None, stored)),
            ConsumerRecord(REGEX, "g", "t.*", RegexValue(("t1", "t2"), 8, 9)),
        ],
    )
    assert group is not None
    assert group.regexes == {"t.*": ResolvedRegex(frozenset({"t1", "t2"}), 8, 9)}
    assert group.subscribed_topics == {"t1", "t2"}
    assert group.members["m"].classic == ClassicMember(9, (ClassicProtocol("range", b"x"),))
    gone = fold(group, [ConsumerRecord(REGEX, "g", "t.*")])
    assert gone is not None
    assert gone.subscribed_topics == frozenset()


def test_a_partition_of_a_newer_owner_is_not_released_by_the_older_one() -> None:
    def has(member: str, epoch: int, *owned: int) -> ConsumerRecord:
        topics = (StoredOwned(T, owned, (epoch,) * len(owned)),) if owned else ()
        return ConsumerRecord(CURRENT, "g", member, CurrentValue(epoch, 0, 0, topics, ()))

    group = fold(ConsumerGroup("g"), [has("a", 2, 0), has("b", 3, 0), has("a", 3)])
    assert group is not None
    assert group.owner_epoch(T, 0) == 3


def test_a_record_of_an_older_version_has_no_assignment_epochs() -> None:
    old = CurrentValue(4, 3, 0, (StoredOwned(T, (0, 1)),), ())
    group = fold(ConsumerGroup("g"), [ConsumerRecord(CURRENT, "g", "m", old)])
    assert group is not None
    assert group.members["m"].assigned == {T: {0: 4, 1: 4}}
