"""Static members of a classic group: who returns, who is fenced, and what the others notice."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import Leaving
from streamactors.broker.group.classic.classic_group import GroupState
from tests.broker.group.group_world import World

E = ErrorCode


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    world = World()
    _, follower = world.stable("i0", "i1")
    generation = world.group.generation
    answer = world.joined(world.join(instance_id="i1"))
    assert answer.error is E.NONE
    assert answer.member_id != follower
    assert answer.generation == generation
    assert world.group.state is GroupState.STABLE
    sync = world.synced(world.sync(answer.member_id, instance_id="i1"))
    assert sync.assignment == follower.encode()


def test_the_old_member_id_of_a_static_member_is_fenced() -> None:
    world = World()
    _, old = world.stable("i0", "i1")
    world.join(instance_id="i1")
    assert world.heartbeat(old, instance_id="i1") is E.FENCED_INSTANCE_ID
    assert world.heartbeat(old) is E.UNKNOWN_MEMBER_ID
    assert world.joined(world.join(old, instance_id="i1")).error is E.FENCED_INSTANCE_ID
    assert world.synced(world.sync(old, instance_id="i1")).error is E.FENCED_INSTANCE_ID


def test_a_returning_static_leader_is_told_to_skip_the_assignment() -> None:
    world = World()
    world.stable("i0", "i1")
    answer = world.joined(world.join(instance_id="i0"))
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert len(answer.members) == 2


def test_a_returning_static_leader_that_cannot_skip_gets_its_old_id_as_leader() -> None:
    world = World()
    old, _ = world.stable("i0", "i1")
    answer = world.joined(world.join(instance_id="i0", can_skip_assignment=False))
    assert answer.leader == old
    assert (answer.skip_assignment, answer.members) == (False, ())


def test_a_returning_static_member_is_answered_after_its_new_id_is_in_the_log() -> None:
    world = World()
    world.stable("i0", "i1")
    world.auto_write = False
    token = world.join(instance_id="i1")
    assert token not in world.answers
    world.written()
    assert world.joined(token).error is E.NONE


def test_a_static_member_whose_return_cannot_be_written_keeps_its_old_id() -> None:
    world = World()
    _, old = world.stable("i0", "i1")
    world.auto_write = False
    token = world.join(instance_id="i1")
    world.written(E.COORDINATOR_NOT_AVAILABLE)
    assert world.joined(token).error is E.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat(old, instance_id="i1") is E.NONE


def test_a_static_member_whose_return_took_the_log_longer_than_its_session_can_still_expire() -> None:
    # joins -> the log is slow -> its session runs out, which is ignored while its request waits -> the log answers: had
    # nobody started the session again, a client that died meanwhile would keep its partitions forever.
    world = World()
    world.stable("i0")
    world.auto_write = False
    token = world.join(instance_id="i0")
    world.advance(20_000)
    world.written()
    assert world.joined(token).error is E.NONE
    world.advance(9_000)
    assert world.group.member_of_instance("i0") is not None
    world.advance(2_000)
    assert world.group.member_of_instance("i0") is None


def test_a_static_member_returning_with_another_assignor_starts_a_rebalance() -> None:
    world = World()
    world.stable("i0")
    both = (("sticky", b""), ("range", b"t"))
    token = world.join(instance_id="i0", protocols=both)
    assert world.joined(token).generation == 2


def subscription(*topics: str, owned: bytes = b"") -> tuple[tuple[str, bytes], ...]:
    """A member's protocols: one assignor, with its subscription to the topics."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return (("range", b"\x00\x01" + len(topics).to_bytes(4, "big") + names + len(owned).to_bytes(4, "big") + owned),)


@pytest.mark.parametrize("topics", [("t", "more"), ("more",), ()])
@pytest.mark.parametrize("instance_id", ["i0", "i1"])
def test_a_static_member_returning_with_other_topics_starts_a_rebalance(
    topics: tuple[str, ...], instance_id: str
) -> None:
    world = World()
    world.stable("i0", "i1", protocols=subscription("t"))
    generation = world.group.generation
    token = world.join(instance_id=instance_id, protocols=subscription(*topics))
    assert world.group.state is GroupState.PREPARING_REBALANCE
    other = "i0" if instance_id == "i1" else "i1"
    member = world.group.member_of_instance(other)
    assert member is not None
    world.join(member.member_id, instance_id=other, protocols=subscription("t"))
    assert world.joined(token).generation == generation + 1


def test_a_static_member_returning_with_the_same_topics_in_another_subscription_starts_no_rebalance() -> None:
    world = World()
    world.stable("i0", "i1", protocols=subscription("t", "more", owned=b"a partition"))
    generation = world.group.generation
    answer = world.joined(world.join(instance_id="i1", protocols=subscription("more", "t")))
    assert (answer.generation, world.group.state) == (generation, GroupState.STABLE)


def test_what_a_static_member_of_another_protocol_type_says_starts_no_rebalance() -> None:
    world = World()
    world.stable("i0", protocols=subscription("t"), protocol_type="connect")
    world.join(instance_id="i0", protocols=subscription("more"), protocol_type="connect")
    assert (world.group.generation, world.group.state) == (1, GroupState.STABLE)


def test_a_static_member_returning_while_the_leader_assigns_starts_a_rebalance() -> None:
    world = World()
    a = world.joined(world.join(instance_id="i0")).member_id
    world.joined(world.join(instance_id="i0"))
    assert world.group.generation == 2
    assert a not in world.group.members


def test_a_static_member_survives_a_rebalance_it_slept_through() -> None:
    world = World()
    world.stable("i0", "i1")
    follower = world.group.member_of_instance("i1")
    assert follower is not None
    leader = world.group.leader
    assert leader is not None
    again = world.join(leader, instance_id="i0", rebalance_timeout_ms=5_000, session_timeout_ms=300_000)
    for _ in range(13):
        world.advance(5_000)
        world.heartbeat(follower.member_id, instance_id="i1")
    assert world.joined(again).error is E.NONE
    assert follower.member_id in world.group.members


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    world = World()
    _, b = world.stable("i0", "i1")
    assert world.leave(Leaving("", "i1"), Leaving("", "nobody"), Leaving("", None)) == [
        E.NONE,
        E.UNKNOWN_MEMBER_ID,
        E.UNKNOWN_MEMBER_ID,
    ]
    assert b not in world.group.members


def test_leaving_with_a_fenced_id_removes_nobody() -> None:
    world = World()
    _, old = world.stable("i0", "i1")
    world.join(instance_id="i1")
    assert world.leave(Leaving(old, "i1")) == [E.FENCED_INSTANCE_ID]
    assert len(world.group.members) == 2


def test_a_leave_without_any_id_removes_nobody() -> None:
    # A dynamic member has no instance id either: it must not be taken for the one that leaves.
    world = World()
    members = world.stable(None, "i1")
    assert world.leave(Leaving("", None)) == [E.UNKNOWN_MEMBER_ID]
    assert sorted(world.group.members) == sorted(members)
    assert world.group.state is GroupState.STABLE


def test_a_follower_leads_the_generation_that_an_absent_static_leader_slept_through() -> None:
    world = World()
    leader, follower = world.stable("i0", "i1")
    assert world.group.leader == leader
    again = world.join(follower, instance_id="i1", protocols=(("range", b"more"),), rebalance_timeout_ms=5_000)
    for _ in range(13):
        world.advance(5_000)
        if again in world.answers:
            break
        world.heartbeat(leader, instance_id="i0")
    answer = world.joined(again)
    assert (answer.error, answer.leader) == (E.NONE, follower)
    assert {member_id for member_id, _, _ in answer.members} == {leader, follower}
    assert world.group.leader == follower
    assert world.group.pending_syncs == {leader, follower}


def test_silent_static_members_alone_are_waited_for_until_one_returns() -> None:
    world = World()
    first, second = world.stable("i0", "i1")
    dynamic = world.join(rebalance_timeout_ms=5_000)  # starts a rebalance that nobody else hears of
    vanished = world.group.members[next(m for m in world.group.members if m not in (first, second))].member_id
    world.leave(vanished)
    assert dynamic in world.answers
    generation = world.group.generation
    for _ in range(13):
        world.advance(5_000)
        for member_id, instance_id in ((first, "i0"), (second, "i1")):
            world.heartbeat(member_id, generation, instance_id)
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.group.generation == generation
    back = world.join(second, instance_id="i1")
    for _ in range(13):
        world.advance(5_000)
        if back in world.answers:
            break
        world.heartbeat(first, generation, "i0")
    assert world.joined(back).error is E.NONE
    assert world.group.leader == second
    assert world.group.generation == generation + 1
