"""What the log refuses has not happened: the group is as it was, its members keep their sessions, and no answer is sent before what it builds on is written."""

from __future__ import annotations

from typing import Any

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_events import MemberHeartbeat
from streamactors.broker.group.consumer.consumer_messages import ToConsumerGroup
from streamactors.broker.group.consumer.consumer_surroundings import alone
from streamactors.broker.group.group_shard import GroupShard
from streamactors.broker.group.metadata_hash import metadata_hash
from streamactors.broker.group.share.share_kind import ShareGroupRules, ShareNeeds
from streamactors.broker.group.share.share_messages import BeatAnswer, ShareHeartbeat
from streamactors.broker.group.share.share_rules import Beat, Facts
from streamactors.broker.share.state.share_asks import StateAnswer
from tests.broker.group.consumer.consumer_world import image_of
from tests.broker.group.shard_world import ShardWorld

E = ErrorCode
IMAGE = image_of({"t": 2})


class World(ShardWorld):
    """A coordinator with share groups, whose share partitions begin at once."""

    def new_shard(self) -> GroupShard:
        needs = ShareNeeds(
            lambda _: Facts(self.wall_ms(), IMAGE, metadata_hash),
            lambda _: ShareGroupRules(),
            lambda _key, _ask, reply: reply(StateAnswer()),
        )
        log = self.log.new_writer()
        return GroupShard(
            "offsets-0", log, self, self, self.rules, self.offset_rules, self.mailbox.append, alone(IMAGE), needs
        )

    def share(self, member: str, epoch: int, topics: tuple[str, ...] | None = None) -> str:
        beat = Beat(member, epoch, topics=topics)
        return self.ask("share", lambda reply: ShareHeartbeat("s", beat, reply))

    def consumer(self, member: str, epoch: int) -> str:
        joins = epoch == 0
        beat = MemberHeartbeat(
            member_id=member, epoch=epoch, rebalance_timeout_ms=30_000, topics=("t",) if joins else None
        )
        return self.ask("consumer", lambda reply: ToConsumerGroup(reply, "c", beat, lambda _: True))

    def members(self, group: str) -> list[str]:
        found: Any = self.shard.groups.get(group)
        return [] if found is None else sorted(found.members)


def test_a_share_group_is_as_before_and_the_partition_is_not_read_again() -> None:
    world = World()
    assert world.answers[world.share("a", 0, ("t",))].error is E.NONE
    before, loads = world.shard.groups["s"], world.loads
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    refused: BeatAnswer = world.answers[world.share("b", 0, ("t",))]
    assert refused.error is E.COORDINATOR_NOT_AVAILABLE
    assert (world.shard.groups["s"], world.loads) == (before, loads)
    assert world.answers[world.share("b", 0, ("t",))].error is E.NONE
    assert world.members("s") == ["a", "b"]


def test_a_share_member_hears_nothing_of_what_is_not_written() -> None:
    world = World(auto=False)
    joined = world.share("a", 0, ("t",))
    again = world.share("a", 0, ("t",))  # the first answer was late; this heartbeat changes nothing
    assert joined not in world.answers
    assert again not in world.answers
    world.log.acknowledge()
    assert world.answers[again].epoch == world.answers[joined].epoch


@pytest.mark.parametrize("kind", ["share", "consumer"])
def test_a_member_whose_leave_the_log_refused_is_removed_when_its_session_ends(kind: str) -> None:
    world = World()
    group = kind[0]
    ask: Any = getattr(world, kind)
    ask("a", 0, ("t",)) if kind == "share" else ask("a", 0)
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    ask("a", -1)
    assert world.members(group) == ["a"]
    world.advance(46_000)  # the client does not ask again
    assert world.members(group) == []
    world.crash()
    assert world.members(group) == []


@pytest.mark.expects_log("is not removed yet: COORDINATOR_NOT_AVAILABLE")
def test_a_session_whose_end_the_log_refused_ends_soon() -> None:
    world = World()
    world.share("a", 0, ("t",))
    world.advance(44_000)
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    world.advance(1_100)
    assert world.members("s") == ["a"]
    world.advance(500)
    assert world.members("s") == []


@pytest.mark.expects_log("StateBehindLog")
@pytest.mark.parametrize("kind", ["share", "consumer"])
def test_a_group_whose_state_would_be_behind_the_log_is_read_again(kind: str) -> None:
    # a is in the log, unacknowledged -> b is refused, which is told after a -> c is appended, on top of b -> a is acknowledged
    world = World(auto=False)
    loads = world.loads
    join: Any = (
        (lambda each: world.share(each, 0, ("t",))) if kind == "share" else (lambda each: world.consumer(each, 0))
    )
    tokens = [join("a")]
    world.log.fail_next = E.NOT_ENOUGH_REPLICAS
    tokens += [join("b"), join("c")]
    while world.log.pending:
        world.log.acknowledge()
        world.settle()
    world.advance(20)
    assert world.loads == loads + 1
    world.load()
    assert world.members(kind[0]) == ["a", "c"] or set(world.members(kind[0])) >= {"a", "c"}
    errors = [answer.error if kind == "share" else answer[0] for answer in (world.answers[each] for each in tokens)]
    assert errors == [E.NONE, E.COORDINATOR_NOT_AVAILABLE, E.NONE]
