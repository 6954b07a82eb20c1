"""What a follower does with each answer of its leader."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamactors.broker.errors import ErrorCode
from streamactors.broker.replication.follower_state import (
    NOTHING,
    AskedFetch,
    Extend,
    FindRange,
    Follow,
    Following,
    Got,
    LocalLog,
    StartOver,
    TruncateTo,
    failed_range,
    judge,
    judge_range,
)

ASKED = AskedFetch(leader_epoch=4, offset=30)


def log(start: int = 10, end: int = 30, epochs: dict[int, tuple[int, int]] | None = None) -> LocalLog:
    return LocalLog(start, end, (epochs or {}).__getitem__)


def test_records_are_appended_only_where_they_were_asked_for() -> None:
    got = Got(ErrorCode.NONE, high_watermark=28, log_start_offset=12)
    assert judge(Following(4), ASKED, got, log(), 0) == Extend(28, 12)
    assert judge(Following(4), ASKED, got, log(end=25), 0) == NOTHING  # truncated meanwhile
    assert judge(Following(5), ASKED, got, log(), 0) == NOTHING  # another leader meanwhile


def test_a_diverging_answer_truncates_to_the_common_end() -> None:
    got = Got(ErrorCode.NONE, 99, 0, diverging=(2, 20))
    assert judge(Following(4), ASKED, got, log(epochs={2: (2, 25)}), 0) == TruncateTo(20)
    assert judge(Following(4), ASKED, got, log(epochs={2: (2, 15)}), 0) == TruncateTo(15)
    assert judge(Following(4), ASKED, got, log(epochs={2: (1, 12)}), 0) == TruncateTo(12)


@pytest.mark.parametrize("error", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_LEADER_EPOCH])
def test_a_leader_that_is_behind_with_its_metadata_is_asked_again_soon(error: ErrorCode) -> None:
    following = Following(4)
    assert judge(following, ASKED, Got(error), log(), 1_000.0) == NOTHING
    assert not following.due(1_000.0)
    assert following.due(1_100.0)


def test_a_fenced_follower_waits_for_newer_metadata() -> None:
    following = Following(4)
    judge(following, ASKED, Got(ErrorCode.FENCED_LEADER_EPOCH), log(), 0)
    assert following.doing is Follow.FENCED
    assert not following.due(10**9)


def test_out_of_range_means_to_find_the_range_of_the_leader_first() -> None:
    following = Following(4)
    assert judge(following, ASKED, Got(ErrorCode.OFFSET_OUT_OF_RANGE), log(), 0) == FindRange()
    assert not following.due(10**9)
    assert judge_range(following, 4, 0, 25, log()) == TruncateTo(25)  # the leader's log ends earlier
    assert following.due(0)
    assert judge_range(following, 4, 0, 25, log()) == NOTHING  # it was not asked for again

    for leader_start, leader_end, expected in ((40, 90, StartOver(40)), (0, 5, StartOver(5)), (20, 90, NOTHING)):
        following = Following(4, Follow.FINDING_RANGE)
        assert judge_range(following, 4, leader_start, leader_end, log()) == expected
    following = Following(5, Follow.FINDING_RANGE)
    assert judge_range(following, 4, 40, 90, log()) == NOTHING  # another leader meanwhile


def test_a_range_that_is_not_found_is_asked_for_later() -> None:
    following = Following(4, Follow.FINDING_RANGE)
    failed_range(following, 100.0)
    assert not following.due(100.0)
    assert following.due(1_100.0)


@given(start=st.integers(0, 5), end=st.integers(0, 5), leader_start=st.integers(0, 12), leader_end=st.integers(0, 12))
def test_a_log_is_cut_or_begun_anew_only_where_it_leaves_the_range_of_the_leader(
    start: int, end: int, leader_start: int, leader_end: int
) -> None:
    mine = LocalLog(start, start + end, lambda epoch: (epoch, start + end))
    following = Following(4, Follow.FINDING_RANGE)
    made = judge_range(following, 4, min(leader_start, leader_end), leader_end, mine)
    if leader_end < mine.end_offset:
        assert made == (TruncateTo(leader_end) if leader_end >= start else StartOver(leader_end))
    elif min(leader_start, leader_end) > mine.end_offset:
        assert made == StartOver(min(leader_start, leader_end)), "the leader has no record that would follow"
    else:
        assert made == NOTHING
    assert following.due(0.0)
