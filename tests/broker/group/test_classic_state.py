"""The classic group protocol, told as sentences over the pure state machine."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import (
    AssignmentWritten,
    Deleted,
    EmptyWritten,
    Event,
    GroupLoaded,
    InitialDelayElapsed,
    JoinDeadline,
    Resigned,
    SessionExpired,
    StaticMemberWritten,
    SyncDeadline,
)
from streamactors.broker.group.classic.classic_group import MOVES, Group, GroupRules, GroupState, Member
from streamactors.broker.group.classic.classic_state import step
from tests.broker.group.group_world import World

E = ErrorCode


@pytest.mark.parametrize("generation", [-1, 0, 2, 2**31 - 1])
def test_a_wrong_generation_is_illegal(generation: int) -> None:
    world = World()
    (a,) = world.stable(None)
    before = world.group
    assert world.heartbeat(a, generation) is E.ILLEGAL_GENERATION
    assert world.synced(world.sync(a, generation=generation)).error is E.ILLEGAL_GENERATION
    assert world.group is before


def test_an_unknown_member_changes_nothing() -> None:
    world = World()
    world.stable(None)
    before = world.group
    assert world.heartbeat("who") is E.UNKNOWN_MEMBER_ID
    assert world.joined(world.join("who")).error is E.UNKNOWN_MEMBER_ID
    assert world.synced(world.sync("who")).error is E.UNKNOWN_MEMBER_ID
    assert world.leave("who") == [E.UNKNOWN_MEMBER_ID]
    assert world.group == before


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 5_999, 1_800_001])
def test_a_session_timeout_out_of_range_is_refused(session_timeout_ms: int) -> None:
    world = World()
    assert world.joined(world.join(session_timeout_ms=session_timeout_ms)).error is E.INVALID_SESSION_TIMEOUT
    assert world.group == Group("g", world.rules)


def test_a_silent_member_is_removed_and_the_others_rebalance() -> None:
    world = World()
    a, b = world.stable(None, None)
    world.advance(9_999)
    assert world.heartbeat(a) is E.NONE
    world.advance(1)
    assert b not in world.group.members
    assert world.heartbeat(a) is E.REBALANCE_IN_PROGRESS


def test_a_member_whose_request_is_parked_does_not_time_out() -> None:
    world = World()
    a, b = world.stable(None, None)
    waiting = world.join(a)
    world.advance(9_000)
    assert world.heartbeat(b) is E.REBALANCE_IN_PROGRESS
    world.advance(9_000)  # a has been silent for 18 s, with its request in our hands
    assert a in world.group.members
    world.join(b)
    assert world.joined(waiting).error is E.NONE
    world.advance(9_999)
    assert a in world.group.members  # its session began again with the answer


def test_a_newcomer_that_vanished_while_it_waited_is_given_up_after_five_minutes() -> None:
    world = World()
    (a,) = world.stable(None)
    gone = world.join(rebalance_timeout_ms=600_000, session_timeout_ms=10_000)
    for _ in range(60):
        world.advance(5_000)
        world.heartbeat(a)
    assert world.joined(gone).error is E.UNKNOWN_MEMBER_ID


def test_a_member_that_never_syncs_is_removed() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=10))
    a_join, b_join = world.join(rebalance_timeout_ms=20_000), world.join(rebalance_timeout_ms=20_000)
    world.advance(30)
    a, b = world.joined(a_join).member_id, world.joined(b_join).member_id
    parked = world.sync(b)
    for _ in range(20):
        world.advance(1_000)
        world.heartbeat(a, 1)
    assert a not in world.group.members
    assert world.synced(parked).error is E.REBALANCE_IN_PROGRESS


def test_a_member_that_syncs_while_others_join_is_told_to_join_too() -> None:
    world = World()
    (a,) = world.stable(None)
    world.join()
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.synced(world.sync(a)).error is E.REBALANCE_IN_PROGRESS


def test_the_last_member_leaving_empties_the_group_and_writes_it() -> None:
    world = World()
    (a,) = world.stable(None)
    assert world.leave(a) == [E.NONE]
    assert world.group.state is GroupState.EMPTY
    assert (world.group.protocol, world.group.leader, world.group.generation) == (None, None, 2)
    assert world.log[-1] == (world.group, ())


def test_the_parked_request_of_a_leaving_member_is_refused() -> None:
    world = World()
    a, _ = world.stable(None, None)
    waiting = world.join(a)
    world.leave(a)
    assert world.joined(waiting).error is E.UNKNOWN_MEMBER_ID


def test_leaving_before_the_initial_delay_ends_leaves_an_empty_group() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=3_000))
    world.join()
    (a,) = world.group.members
    world.leave(a)
    assert world.group.state is GroupState.EMPTY
    world.advance(10_000)
    assert world.group.generation == 1


def test_a_full_group_refuses_newcomers() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=0, max_size=2))
    a, b = world.stable(None, None)
    assert world.joined(world.join()).error is E.GROUP_MAX_SIZE_REACHED
    assert set(world.group.members) == {a, b}
    assert world.group.state is GroupState.STABLE


def test_a_group_that_is_full_before_its_first_rebalance_ends_refuses_newcomers() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=3_000, max_size=2))
    first, second = world.join(), world.join()
    assert world.joined(world.join()).error is E.GROUP_MAX_SIZE_REACHED
    world.advance(10_000)
    assert world.joined(first).error is world.joined(second).error is E.NONE


# -- beginnings and ends -----------------------------------------------------------------------------------------------


def test_sessions_of_a_loaded_group_start_when_it_is_loaded() -> None:
    world = World()
    a, b = world.stable(None, None)
    loaded = World(now_ms=500_000)
    loaded.group = world.group
    loaded.step(GroupLoaded())
    loaded.advance(9_999)
    assert loaded.heartbeat(a) is E.NONE
    loaded.advance(1)
    assert set(loaded.group.members) == {a}
    assert b not in loaded.group.members


def test_parked_requests_are_sent_to_the_new_coordinator() -> None:
    world = World()
    a, _ = world.stable(None, None)
    waiting = world.join(a)
    world.step(Resigned())
    assert world.joined(waiting).error is E.NOT_COORDINATOR
    assert world.group.state is GroupState.DEAD
    assert world.timers == {}


def test_a_dead_group_refuses_every_join() -> None:
    world = World()
    world.step(Deleted())
    assert world.joined(world.join()).error is E.COORDINATOR_NOT_AVAILABLE
    assert world.heartbeat("a") is E.COORDINATOR_NOT_AVAILABLE
    assert world.synced(world.sync("a")).error is E.COORDINATOR_NOT_AVAILABLE


def test_illegal_moves_are_refused_by_the_table() -> None:
    for state in GroupState:
        for to in GroupState:
            group = Group("g", state=state)
            if to in MOVES[state]:
                assert group.moved_to(to, 7).state_since_ms == 7
            else:
                with pytest.raises(AssertionError, match="cannot move"):
                    group.moved_to(to, 7)


def test_a_step_leaves_the_group_it_was_given_alone() -> None:
    world = World()
    world.stable(None, None)
    group = world.group
    copy = repr(group)
    for member_id in group.members:
        step(group, Deleted(), 1)
        world.leave(member_id)
    assert repr(group) == copy


def late_events(world: World) -> list[Event]:
    """Return every event of time and of the log, about members and generations that are gone."""
    gone = world.group.generation - 1
    member = next(iter(world.group.members.values()), Member("x", None, "", "", 1, 1, ()))
    return [
        SessionExpired("stranger"),
        InitialDelayElapsed(1_000, 1_000),
        JoinDeadline(),
        SyncDeadline(gone),
        SyncDeadline(world.group.generation),
        AssignmentWritten(gone, (("stranger", b"x"),)),
        AssignmentWritten(gone, (), E.REQUEST_TIMED_OUT),
        StaticMemberWritten(member, "stranger", None, True),
        EmptyWritten(),
        EmptyWritten(E.REQUEST_TIMED_OUT),
    ]


@pytest.mark.parametrize("members", [0, 1, 3])
def test_late_events_change_nothing(members: int) -> None:
    world = World()
    world.stable(*[None] * members)
    for event in late_events(world):
        after, effects = step(world.group, event, world.now_ms)
        assert after is world.group, event
        assert effects == [], event


def test_a_dead_group_ignores_timers_and_answers_of_the_log() -> None:
    world = World()
    world.stable(None, None)
    world.step(Deleted())
    for event in late_events(world):
        after, effects = step(world.group, event, world.now_ms)
        assert (after, effects) == (world.group, []), event


def test_an_assignment_that_was_written_for_the_generation_before_is_not_handed_out() -> None:
    world = World(auto_write=False)
    (a,) = (world.joined(world.join()).member_id,)
    parked = world.sync(a, {a: b"old"})
    world.join(rebalance_timeout_ms=5_000)
    assert world.synced(parked).error is E.REBALANCE_IN_PROGRESS
    again = world.join(a)
    assert world.joined(again).error is E.NONE
    world.written()  # of the generation before
    assert all(member.assignment == b"" for member in world.group.members.values())
    assert world.group.state is GroupState.COMPLETING_REBALANCE
