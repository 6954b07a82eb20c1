"""An observer of the metadata log: it finds the leader, stores what it gets, and never takes an answer of another epoch."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.partition.leader_epochs import common_end
from streamactors.broker.quorum.observer_state import (
    LAST_BACKOFF_MS,
    Append,
    Commit,
    EndOfLog,
    Fetch,
    Fetched,
    FetchSnapshot,
    LeaderChanged,
    ObserverState,
    Refused,
    Truncate,
    Wait,
)

A, B, C = ("a", 1), ("b", 2), ("c", 3)
EMPTY = EndOfLog(0, 0, -1)
NONE = ErrorCode.NONE


def following(epoch: int = 5, log: EndOfLog = EMPTY) -> tuple[ObserverState, Fetch]:
    state = ObserverState([A, B])
    state.answered(state.next_fetch(log), Fetched(ErrorCode.FENCED_LEADER_EPOCH, 3, epoch, {3: C}), log)
    return state, state.next_fetch(log)


def test_an_error_answer_of_any_controller_leads_to_the_leader() -> None:
    state = ObserverState([A, B])
    assert state.next_fetch(EMPTY) == Fetch(A, 0, 0, 0, -1)
    effects = state.answered(state.next_fetch(EMPTY), Fetched(ErrorCode.FENCED_LEADER_EPOCH, 3, 5, {3: C, 4: B}), EMPTY)
    assert effects == [LeaderChanged(3, 5, C)]
    assert state.next_fetch(EMPTY) == Fetch(C, 5, 0, 0, -1)


def test_during_an_election_the_bootstrap_servers_are_asked_in_turn_with_a_growing_delay() -> None:
    state = ObserverState([A, B])
    asked = []
    waits = []
    for _ in range(9):
        fetch = state.next_fetch(EMPTY)
        asked.append(fetch.address)
        effects = state.answered(fetch, Fetched(ErrorCode.FENCED_LEADER_EPOCH, -1, 7), EMPTY)
        waits += [effect.delay_ms for effect in effects if isinstance(effect, Wait)]
    assert asked[:4] == [A, B, A, B]
    assert len(waits) == 9, "an answer that names no leader is followed by a wait, also the first one of an epoch"
    assert waits == sorted(waits)
    assert waits[-1] == LAST_BACKOFF_MS


def test_a_leader_that_does_not_answer_is_forgotten() -> None:
    state, _ = following()
    assert state.failed()[0] == LeaderChanged(-1, 5, None)
    assert state.next_fetch(EMPTY).address in (A, B)
    survivor = Fetched(ErrorCode.FENCED_LEADER_EPOCH, 3, 5, {3: C})  # it names the dead leader for a while
    assert LeaderChanged(3, 5, C) in state.answered(state.next_fetch(EMPTY), survivor, EMPTY)


def test_records_are_stored_before_they_are_committed_and_the_high_watermark_only_grows() -> None:
    state, fetch = following()
    answer = Fetched(NONE, 3, 5, high_watermark=4, records=b"batches")
    assert state.answered(fetch, answer, EMPTY) == [Append(b"batches"), Commit(4)]
    assert state.next_fetch(EndOfLog(0, 6, 5)) == Fetch(C, 5, 6, 5, 4)
    assert state.answered(fetch, Fetched(NONE, 3, 5, high_watermark=3), EMPTY) == []


def test_an_answer_of_another_epoch_stores_nothing() -> None:
    state, fetch = following()
    newer = state.answered(fetch, Fetched(NONE, 4, 6, {4: B}, 9, b"batches"), EMPTY)
    assert newer[0] == LeaderChanged(4, 6, B)
    assert not any(isinstance(effect, Append | Commit) for effect in newer)
    older = state.answered(state.next_fetch(EMPTY), Fetched(NONE, 3, 5, {3: C}, 9, b"batches"), EMPTY)
    assert not any(isinstance(effect, Append | Commit | LeaderChanged) for effect in older)


def test_a_snapshot_or_a_truncation_comes_before_everything_else_in_the_answer() -> None:
    state, fetch = following()
    answer = Fetched(NONE, 3, 5, high_watermark=90, records=b"x", snapshot=(4, 80))
    assert state.answered(fetch, answer, EMPTY) == [FetchSnapshot(C, 5, 4, 80)]
    answer = Fetched(NONE, 3, 5, snapshot=(0, 0))  # the one that a cluster is formatted with
    assert state.answered(fetch, answer, EMPTY) == [FetchSnapshot(C, 5, 0, 0)]
    answer = Fetched(NONE, 3, 5, high_watermark=90, records=b"x", snapshot=(-1, -1))
    assert state.answered(fetch, answer, EMPTY) == [Append(b"x"), Commit(90)]
    answer = Fetched(NONE, 3, 5, high_watermark=90, records=b"x", diverging=(4, 80))
    assert state.answered(fetch, answer, EMPTY) == [Truncate(4, 80)]
    answer = Fetched(NONE, 3, 5, records=b"x", diverging=(0, 0))  # the leader has none of the records
    assert state.answered(fetch, answer, EMPTY) == [Truncate(0, 0)]


def test_a_node_of_another_cluster_ends_the_observer() -> None:
    state = ObserverState([A])
    assert state.answered(state.next_fetch(EMPTY), Fetched(ErrorCode.INCONSISTENT_CLUSTER_ID, -1, -1), EMPTY) == [
        Refused(ErrorCode.INCONSISTENT_CLUSTER_ID)
    ]


@pytest.mark.parametrize(
    ("theirs", "ours", "end_offset", "expected"),
    [
        ((2, 27_004), (2, 27_009), 27_009, 27_004),  # the leader's epoch ended earlier
        ((2, 30), (2, 20), 25, 20),  # ours ended earlier: what follows is of an epoch that the leader never had
        ((2, 30), (1, 12), 25, 12),  # we never had the leader's epoch: ask again from the end of the one before
        ((2, 30), (-1, -1), 25, 25),  # we know no epoch at all: the leader's end is all that is known
        ((2, 10), (-1, -1), 25, 10),
    ],
)
def test_the_common_end_of_two_logs(
    theirs: tuple[int, int], ours: tuple[int, int], end_offset: int, expected: int
) -> None:
    assert common_end(theirs, ours, end_offset) == expected
