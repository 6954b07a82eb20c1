"""A group changes its protocol while its members live: from classic to consumer with the first member of the consumer protocol, and back with its last."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.consumer.consumer_events import ConsumerRules, MemberHeartbeat, MigrationPolicy
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup
from streamactors.broker.group.consumer.consumer_messages import ToConsumerGroup
from streamactors.broker.group.consumer.consumer_surroundings import alone
from streamactors.broker.group.consumer.embedded_protocol import (
    decode_assignment,
    decode_subscription,
    encode_assignment,
)
from tests.broker.group.consumer.consumer_world import image_of
from tests.broker.group.shard_world import ShardWorld

IMAGE = image_of({"t": 4})
(T,) = IMAGE.topics_by_id
SUBSCRIBED = b"\x00\x00\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x00"
MADE = encode_assignment({"t": (0, 1, 2, 3)}, SUBSCRIBED)


def cooperative(*owned: int) -> bytes:
    """Return a subscription of version 1, which says what the member has."""
    partitions = b"".join(each.to_bytes(4, "big") for each in owned)
    topics = b"\x00\x00\x00\x01\x00\x01t" + len(owned).to_bytes(4, "big") + partitions if owned else b"\x00\x00\x00\x00"
    return b"\x00\x01" + SUBSCRIBED[2:9] + b"\xff\xff\xff\xff" + topics


def made(policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL) -> ShardWorld:
    world = ShardWorld()
    world.surroundings = alone(IMAGE, ConsumerRules(assignment_interval_ms=0, migration=policy))
    world.start(load=True)
    return world


def beat(world: ShardWorld, member: str = "new", epoch: int = 0, **fields: Any) -> Any:
    joins = {"topics": ("t",), "rebalance_timeout_ms": 9_000, "owned": ()} if epoch == 0 else {}
    asked = MemberHeartbeat(member_id=member, epoch=epoch, **{**joins, **fields})
    token = world.ask("beat", lambda reply: ToConsumerGroup(reply, "g", asked, lambda _: True))
    return world.answers[token]


def group(world: ShardWorld) -> Any:
    return world.shard.groups.get("g")


def classic(world: ShardWorld) -> tuple[str, int]:
    joined = world.answers[world.join("g", metadata=SUBSCRIBED)]
    world.sync("g", joined.member_id, joined.generation, {joined.member_id: MADE})
    return joined.member_id, joined.generation


def test_what_a_subscription_says() -> None:
    said = decode_subscription(cooperative(1, 2))
    assert (list(said.topics), [(each.topic, list(each.partitions)) for each in said.owned]) == (["t"], [("t", [1, 2])])
    assert decode_assignment(MADE).assigned[0].partitions == (0, 1, 2, 3)


def test_a_member_of_the_consumer_protocol_makes_a_classic_group_a_consumer_group() -> None:
    world = made()
    member, generation = classic(world)
    error, _, answer = beat(world)
    assert (error, answer.epoch, answer.assigned) == (ErrorCode.NONE, generation + 1, {})
    assert isinstance(group(world), ConsumerGroup)
    # the old member is told to join again, gives two partitions back, and the new one gets them
    assert world.heartbeat("g", member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    first = world.answers[world.join("g", member, metadata=cooperative(0, 1, 2, 3))]
    assert (first.error, first.generation) == (ErrorCode.NONE, generation)
    synced = world.answers[world.sync("g", member, first.generation, {})]
    kept = decode_assignment(synced.assignment).assigned[0].partitions
    assert len(kept) == 2
    assert world.heartbeat("g", member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    again = world.answers[world.join("g", member, metadata=cooperative(*kept))]
    assert again.generation == generation + 1
    assert world.heartbeat("g", member, generation + 1) is ErrorCode.NONE
    _, _, answer = beat(world, epoch=generation + 1, owned=())
    assert {each for held in answer.assigned.values() for each in held} == {0, 1, 2, 3} - set(kept)


def test_the_last_member_of_the_consumer_protocol_leaves_a_classic_group() -> None:
    world = made()
    member, _ = classic(world)
    beat(world)
    world.answers[world.join("g", member, metadata=cooperative(0, 1, 2, 3))]
    error, _, _ = beat(world, epoch=-1)
    assert error is ErrorCode.NONE
    now = group(world)
    assert isinstance(now, Group)
    assert now.state is GroupState.PREPARING_REBALANCE
    assert list(now.members) == [member]
    token = world.join("g", member, metadata=SUBSCRIBED)
    assert world.answers[token].error is ErrorCode.NONE
    assert world.answers[token].leader == member


def test_a_group_that_changed_its_protocol_is_read_as_it_is() -> None:
    world = made()
    member, _ = classic(world)
    beat(world)
    before = group(world)
    world.crash()
    assert group(world).members == before.members
    beat(world, epoch=-1)
    world.crash()
    assert isinstance(group(world), Group)
    assert list(group(world).members) == [member]


def test_an_empty_group_changes_its_protocol_at_once() -> None:
    world = made(MigrationPolicy.DISABLED)
    beat(world)
    beat(world, epoch=-1)
    assert isinstance(group(world), ConsumerGroup)
    member, generation = classic(world)
    assert isinstance(group(world), Group)
    world.leave("g", member)
    assert beat(world)[0] is ErrorCode.NONE
    world.crash()
    assert isinstance(group(world), ConsumerGroup)
    assert generation == 1


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_an_upgrade_that_is_disabled_is_refused(policy: MigrationPolicy) -> None:
    world = made(policy)
    classic(world)
    error, why, _ = beat(world)
    assert error is ErrorCode.GROUP_ID_NOT_FOUND
    assert why == "Cannot upgrade classic group g to consumer group because online upgrade is disabled."
    assert isinstance(group(world), Group)


def test_a_classic_member_is_refused_where_migration_is_disabled() -> None:
    world = made(MigrationPolicy.DISABLED)
    beat(world)
    assert world.answers[world.join("g")].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_stays_a_consumer_group_where_downgrades_are_disabled() -> None:
    world = made(MigrationPolicy.UPGRADE)
    member, _ = classic(world)
    beat(world)
    beat(world, epoch=-1)
    assert list(group(world).members) == [member]
    assert isinstance(group(world), ConsumerGroup)


def test_a_classic_member_that_does_not_join_again_is_removed() -> None:
    world = made()
    member, generation = classic(world)
    beat(world)
    assert world.heartbeat("g", member, generation) is ErrorCode.REBALANCE_IN_PROGRESS
    for _ in range(8):
        world.advance(8_000)
        world.heartbeat("g", member, generation)
        beat(world, epoch=generation + 1)
    assert list(group(world).members) == ["new"]


def test_a_classic_member_leaves_a_consumer_group() -> None:
    world = made()
    member, _ = classic(world)
    beat(world)
    left = world.leave("g", member)
    assert [error for _, error in left.members] == [ErrorCode.NONE]
    assert list(group(world).members) == ["new"]


def test_requests_of_strangers_and_old_generations() -> None:
    world = made()
    member, generation = classic(world)
    beat(world)
    assert world.heartbeat("g", "nobody", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.heartbeat("g", member, generation + 7) is ErrorCode.ILLEGAL_GENERATION
    assert world.heartbeat("g", "new", 2) is ErrorCode.UNKNOWN_MEMBER_ID
