"""One map of groups of every kind: a group of one kind is listed, refused and deleted like the others."""

from __future__ import annotations

import uuid

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_record import (
    CURRENT,
    EPOCH,
    MEMBER,
    TARGET,
    ConsumerRecord,
    CurrentValue,
    EpochValue,
    MemberValue,
    StoredOwned,
    StoredPartitions,
    TargetValue,
    encode,
)
from streamactors.broker.group.consumer.record_of import tombstones
from tests.broker.group.shard_world import ShardWorld

T = uuid.UUID(int=1)
JOINED = [
    ConsumerRecord(MEMBER, "k", "m", MemberValue(None, None, "c", "/h", ("t",), "", 5, None)),
    ConsumerRecord(EPOCH, "k", "", EpochValue(2)),
    ConsumerRecord(TARGET, "k", "m", TargetValue((StoredPartitions(T, (0,)),))),
    ConsumerRecord(CURRENT, "k", "m", CurrentValue(2, 0, 0, (StoredOwned(T, (0,), (2,)),), ())),
]
LEFT = [
    ConsumerRecord(CURRENT, "k", "m"),
    ConsumerRecord(TARGET, "k", "m"),
    ConsumerRecord(MEMBER, "k", "m"),
    ConsumerRecord(EPOCH, "k", "", EpochValue(3)),
]


def world_with(*records: ConsumerRecord) -> ShardWorld:
    world = ShardWorld()
    world.log.writer.write([encode(record) for record in records], lambda *_: None)
    world.log.writer.flush()
    world.crash()
    return world


def test_groups_of_every_kind_are_listed() -> None:
    world = world_with(*JOINED)
    world.stable("g")
    listed = {
        name: (group.group_type.value, group.state_name, group.listed_protocol)
        for name, group in world.listed().items()
    }
    assert listed == {"g": ("classic", "Stable", "consumer"), "k": ("consumer", "Assigning", "consumer")}


def test_a_member_of_the_consumer_protocol_cannot_use_the_classic_one() -> None:
    world = world_with(*JOINED)
    assert world.heartbeat("k", "m", 2) is ErrorCode.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_is_deleted_with_its_offsets() -> None:
    world = world_with(*JOINED, *LEFT)
    world.commit("k", [("t", 0, 5)])
    assert world.offsets("k") == {("t", 0): 5}
    assert world.answers[world.delete("k")] == [ErrorCode.NONE]
    world.crash()
    assert world.listed() == {}
    assert world.offsets("k") == {}


def test_a_consumer_group_with_members_is_not_deleted() -> None:
    world = world_with(*JOINED)
    assert world.answers[world.delete("k")] == [ErrorCode.NON_EMPTY_GROUP]
    assert world.described("k") is not None


def test_offsets_of_subscribed_topics_stay() -> None:
    world = world_with(*JOINED)
    assert world.delete_offsets("k", ("t", 0), ("u", 0))[1] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE,
    ]  # fmt: skip


def test_tombstones_delete_everything_of_a_group() -> None:
    world = world_with(*JOINED)
    group = world.described("k")
    assert group is not None
    again = world_with(*JOINED, *tombstones(group))  # type: ignore[arg-type]
    assert again.listed() == {}
