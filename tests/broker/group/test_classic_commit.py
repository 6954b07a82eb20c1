"""Who may commit and delete what: every question of classic_commit.py as a table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_commit import (
    check_commit,
    check_delete_group,
    check_delete_offsets,
    session_touched,
)
from streamactors.broker.group.classic.classic_group import Group, GroupRules, GroupState
from tests.broker.group.group_world import World

E = ErrorCode
S = GroupState
EMPTY = Group("g", GroupRules())


def group_in(state: GroupState, protocol_type: str = "consumer") -> tuple[Group, str]:
    """Return a group of one static member in a state, and the member's id."""
    world = World()
    (member_id,) = world.stable("i")
    return replace(world.group, state=state, protocol_type=protocol_type), member_id


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE])
def test_a_member_commits_in_its_own_generation_only(state: GroupState, transactional: bool) -> None:
    group, member_id = group_in(state)

    def check(*asked: object) -> ErrorCode:
        return check_commit(group, *asked, transactional=transactional)  # type: ignore[arg-type]

    unassigned = state is S.COMPLETING_REBALANCE and not transactional
    assert check(member_id, "i", group.generation) is (E.REBALANCE_IN_PROGRESS if unassigned else E.NONE)
    assert check(member_id, None, group.generation) is (E.REBALANCE_IN_PROGRESS if unassigned else E.NONE)
    assert check(member_id, "i", group.generation + 1) is E.ILLEGAL_GENERATION
    assert check(member_id, "i", group.generation - 1) is E.ILLEGAL_GENERATION
    assert check(member_id, "i", -1) is E.ILLEGAL_GENERATION
    assert check("stranger", None, group.generation) is E.UNKNOWN_MEMBER_ID
    assert check("stranger", None, -1) is E.UNKNOWN_MEMBER_ID
    assert check("", "i", -1) is E.FENCED_INSTANCE_ID
    assert check("", "nobody", -1) is E.UNKNOWN_MEMBER_ID
    assert check("", None, 0) is E.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE])
def test_a_client_outside_the_group_commits_to_a_group_with_members_only_in_a_transaction(state: GroupState) -> None:
    group, _ = group_in(state)
    assert check_commit(group, "", None, -1) is E.UNKNOWN_MEMBER_ID
    assert check_commit(group, "", None, -1, transactional=True) is E.NONE


@pytest.mark.parametrize("transactional", [False, True])
def test_an_empty_group_accepts_commits_without_a_generation(transactional: bool) -> None:
    assert check_commit(EMPTY, "", None, -1, transactional=transactional) is E.NONE
    assert check_commit(EMPTY, "m", "i", -1, transactional=transactional) is E.NONE
    assert check_commit(EMPTY, "m", None, 0, transactional=transactional) is E.UNKNOWN_MEMBER_ID
    assert check_commit(EMPTY, "", None, 0, transactional=transactional) is E.UNKNOWN_MEMBER_ID


def test_a_dead_group_takes_and_gives_nothing() -> None:
    group, member_id = group_in(S.DEAD)
    assert check_commit(group, member_id, "i", group.generation) is E.COORDINATOR_NOT_AVAILABLE
    assert check_delete_offsets(group) is E.GROUP_ID_NOT_FOUND
    assert check_delete_group(group) is E.GROUP_ID_NOT_FOUND
    assert session_touched(group, member_id) is None


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE])
def test_a_commit_is_a_sign_of_life_except_while_the_member_waits_for_its_assignment(state: GroupState) -> None:
    group, member_id = group_in(state)
    touched = session_touched(group, member_id)
    if state is S.COMPLETING_REBALANCE:
        assert touched is None
    else:
        assert touched is not None
        assert touched.delay_ms == group.members[member_id].session_timeout_ms
    assert session_touched(group, "stranger") is None


@pytest.mark.parametrize("state", [S.PREPARING_REBALANCE, S.COMPLETING_REBALANCE, S.STABLE])
def test_single_offsets_of_a_group_with_members_are_deleted_only_where_their_use_is_known(state: GroupState) -> None:
    assert check_delete_offsets(group_in(state)[0]) is E.NONE
    assert check_delete_offsets(group_in(state, "connect")[0]) is E.NON_EMPTY_GROUP
    assert check_delete_group(group_in(state)[0]) is E.NON_EMPTY_GROUP


def test_an_empty_group_can_be_deleted_whatever_its_protocol() -> None:
    assert check_delete_offsets(EMPTY) is E.NONE
    assert check_delete_offsets(replace(EMPTY, protocol_type="connect")) is E.NONE
    assert check_delete_group(EMPTY) is E.NONE
