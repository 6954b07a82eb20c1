"""How a classic group forms a generation: members join, one assignor is chosen, the leader assigns, and everybody syncs."""

from __future__ import annotations

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_group import GroupRules, GroupState
from tests.broker.group.group_world import World

E = ErrorCode


def test_a_first_member_leads_a_group_of_one_when_there_is_no_initial_delay() -> None:
    world = World()
    answer = world.joined(world.join())
    assert (answer.error, answer.generation, answer.leader) == (E.NONE, 1, answer.member_id)
    assert answer.members == ((answer.member_id, None, b"t"),)
    sync = world.synced(world.sync(answer.member_id, {answer.member_id: b"all"}))
    assert (sync.error, sync.assignment, sync.protocol_type, sync.protocol) == (E.NONE, b"all", "consumer", "range")
    assert world.group.state is GroupState.STABLE


def test_a_dynamic_newcomer_is_sent_back_with_its_member_id() -> None:
    world = World()
    first = world.joined(world.join(needs_known_id=True))
    assert first.error is E.MEMBER_ID_REQUIRED
    assert first.member_id in world.group.pending_joins
    assert world.group.state is GroupState.EMPTY
    again = world.joined(world.join(first.member_id, needs_known_id=True))
    assert (again.error, again.member_id) == (E.NONE, first.member_id)


def test_a_handed_out_member_id_runs_out_with_its_session() -> None:
    world = World()
    member_id = world.joined(world.join(needs_known_id=True, session_timeout_ms=6_000)).member_id
    world.advance(6_000)
    assert world.group.pending_joins == frozenset()
    assert world.joined(world.join(member_id)).error is E.UNKNOWN_MEMBER_ID


def test_an_open_member_id_is_waited_for_in_a_later_rebalance() -> None:
    world = World()
    (a,) = world.stable(None)
    b = world.joined(world.join(needs_known_id=True)).member_id
    rejoined = world.join(a, protocols=(("range", b"changed"),))
    assert rejoined not in world.answers
    world.join(b)
    assert world.joined(rejoined).generation == 2
    assert len(world.group.members) == 2


def test_the_initial_delay_lets_members_join_the_first_generation_together() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=3_000))
    a = world.join()
    world.advance(2_999)
    b = world.join()
    assert a not in world.answers
    world.advance(1)  # somebody came meanwhile: it waits once more
    assert a not in world.answers
    world.advance(3_000)
    assert world.joined(a).generation == world.joined(b).generation == 1
    assert len(world.joined(a).members) == 2
    assert world.joined(b).members == ()


def test_the_initial_delay_ends_with_the_rebalance_timeout_however_many_join() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=3_000))
    first = world.join(rebalance_timeout_ms=7_000)
    for _ in range(7):
        world.advance(999)
        world.join(rebalance_timeout_ms=7_000)
    assert first not in world.answers
    world.advance(7)
    assert world.joined(first).generation == 1


def test_join_parks_until_every_member_has_joined_again() -> None:
    world = World()
    (a,) = world.stable(None)
    b = world.join()
    assert world.heartbeat(a) is E.REBALANCE_IN_PROGRESS
    assert b not in world.answers
    again = world.join(a)
    assert world.joined(again).generation == world.joined(b).generation == 2
    assert [m for m, _, _ in world.joined(again).members] == [a, world.joined(b).member_id]


def test_a_member_that_does_not_join_again_in_time_is_left_behind() -> None:
    world = World()
    (a,) = world.stable(None)
    b = world.join(rebalance_timeout_ms=5_000, session_timeout_ms=300_000)
    world.advance(59_999)  # the most patient member's rebalance timeout counts
    while b not in world.answers:
        world.advance(1)
    assert world.joined(b).leader == world.joined(b).member_id
    assert world.heartbeat(a) is E.UNKNOWN_MEMBER_ID


def test_sync_parks_until_the_leader_assigns() -> None:
    world = World()
    a_join, b_join = world.join(), world.join()
    a = world.joined(a_join).member_id
    world.join(a)
    b = world.joined(b_join).member_id
    waiting = world.sync(b)
    assert waiting not in world.answers
    world.sync(a, {a: b"A", b: b"B"})
    assert world.synced(waiting).assignment == b"B"


def test_no_assignment_is_heard_before_it_is_in_the_log() -> None:
    world = World(auto_write=False)
    a = world.joined(world.join()).member_id
    sync = world.sync(a, {a: b"A"})
    assert sync not in world.answers
    assert world.group.state is GroupState.COMPLETING_REBALANCE
    world.written()
    assert world.synced(sync).assignment == b"A"
    assert world.log[-1] == (world.log[-1][0], ((a, b"A"),))


def test_an_assignment_that_cannot_be_written_starts_another_rebalance() -> None:
    world = World(auto_write=False)
    a = world.joined(world.join()).member_id
    sync = world.sync(a, {a: b"A"})
    world.written(E.NOT_COORDINATOR)
    assert world.synced(sync).error is E.NOT_COORDINATOR
    assert world.group.state is GroupState.PREPARING_REBALANCE
    assert world.group.members[a].assignment == b""


def test_a_retried_assignment_does_not_overtake_the_one_being_written() -> None:
    # Leader syncs -> its connection breaks -> it syncs again with another assignment while the first is on its way to
    # the log. Were both written, a new coordinator would hand out the second after members have heard the first.
    world = World(auto_write=False)
    a = world.joined(world.join()).member_id
    first = world.sync(a, {a: b"first"})
    second = world.sync(a, {a: b"second"})
    assert len(world.writes) == 1
    assert world.synced(first).error is E.REBALANCE_IN_PROGRESS
    world.written()
    assert world.synced(second).assignment == b"first"


def test_members_without_an_assignment_get_an_empty_one() -> None:
    world = World()
    a = world.joined(world.join()).member_id
    assert world.synced(world.sync(a, {})).assignment == b""


def test_a_follower_may_join_again_in_a_stable_group_without_a_rebalance() -> None:
    world = World()
    _, b = world.stable(None, None)
    answer = world.joined(world.join(b))
    assert (answer.generation, answer.members) == (world.group.generation, ())
    assert world.group.state is GroupState.STABLE
    assert world.synced(world.sync(b)).assignment == b.encode()


def test_the_leader_joining_again_starts_a_rebalance() -> None:
    world = World()
    a, _ = world.stable(None, None)
    world.join(a)
    assert world.group.state is GroupState.PREPARING_REBALANCE


def test_a_lost_join_answer_is_given_again() -> None:
    world = World()
    a = world.joined(world.join()).member_id
    again = world.joined(world.join(a))
    assert (again.generation, again.leader) == (1, a)
    assert again.members != ()
    assert world.group.state is GroupState.COMPLETING_REBALANCE


def test_a_join_sent_twice_has_its_first_copy_answered_too() -> None:
    world = World()
    a, _ = world.stable(None, None)
    first = world.join(a)
    second = world.join(a)
    assert world.joined(first).error is E.REBALANCE_IN_PROGRESS
    assert second not in world.answers


def test_protocols_must_have_one_in_common() -> None:
    world = World()
    world.stable(None)
    refused = world.join(protocols=(("sticky", b""),))
    assert world.joined(refused).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert world.joined(world.join(protocol_type="connect")).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert world.joined(world.join(protocols=())).error is E.INCONSISTENT_GROUP_PROTOCOL


def test_an_empty_group_needs_a_protocol_too() -> None:
    world = World()
    assert world.joined(world.join(protocols=())).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert world.joined(world.join(protocol_type="")).error is E.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_that_all_have_left_while_it_waits_for_a_newcomer_needs_a_protocol_too() -> None:
    world = World()
    (a,) = world.stable(None)
    newcomer = world.joined(world.join(needs_known_id=True)).member_id
    world.join(a, protocols=(("range", b"changed"),))
    world.leave(a)
    assert world.group.state is GroupState.PREPARING_REBALANCE
    for bad in ({"protocols": ()}, {"protocol_type": "connect"}):
        assert world.joined(world.join(**bad)).error is E.INCONSISTENT_GROUP_PROTOCOL
        assert world.joined(world.join(newcomer, **bad)).error is E.INCONSISTENT_GROUP_PROTOCOL
    assert world.joined(world.join(newcomer)).leader == newcomer


def test_the_assignor_with_the_most_votes_among_those_all_know_wins() -> None:
    world = World(GroupRules(initial_rebalance_delay_ms=100))
    world.join(protocols=(("sticky", b""), ("range", b"")))
    world.join(protocols=(("range", b""), ("sticky", b"")))
    last = world.join(protocols=(("range", b""), ("only-mine", b""), ("sticky", b"")))
    world.advance(200)
    assert world.joined(last).protocol == "range"


def test_sync_with_another_protocol_than_the_chosen_one_is_inconsistent() -> None:
    world = World()
    a = world.joined(world.join()).member_id
    assert world.synced(world.sync(a, {}, protocol="sticky")).error is E.INCONSISTENT_GROUP_PROTOCOL
