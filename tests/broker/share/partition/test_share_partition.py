"""The rules of a share partition, one by one, as Apache Kafka 4.4 has them."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.share.partition.acknowledging import (
    Acknowledgement,
    AcknowledgementRefused,
    AcknowledgeType,
    acknowledge,
)
from streamactors.broker.share.partition.acquiring import Acquired, Fetched, Span, Want, acquire
from streamactors.broker.share.partition.in_flight import RecordState, ShareLimits, StateBatch
from streamactors.broker.share.partition.releasing import next_lock_end_ms, release_expired, release_member
from streamactors.broker.share.partition.share_partition import BadShareState, GivenUp, SharePartition

WIDE = Want(500, 500)
S = RecordState


def _partition(**limits: int | bool) -> SharePartition:
    return SharePartition(ShareLimits(**limits), 0)  # type: ignore[arg-type]


def _spans(*lengths: int, first: int = 0) -> list[Span]:
    spans = []
    for length in lengths:
        spans.append(Span(first, first + length - 1))
        first += length
    return spans


def _take(
    partition: SharePartition, spans: list[Span], want: Want = WIDE, member: str = "a", now_ms: float = 0
) -> list[Acquired]:
    offset = partition.next_fetch_offset()
    read = [each for each in spans if each.last >= offset]
    return acquire(partition, member, Fetched(offset, read), want, now_ms)


def _done(partition: SharePartition, first: int, last: int, *kinds: int, member: str = "a") -> None:
    change = acknowledge(partition, member, [Acknowledgement(first, last, kinds)], 0)
    partition.finish(change, True, 0)


def test_a_member_gets_whole_batches_and_the_next_one_what_follows() -> None:
    partition, log = _partition(), _spans(5, 5, 5)
    assert _take(partition, log, Want(7, 500)) == [Acquired(0, 9, 1)]
    assert _take(partition, log, member="b") == [Acquired(10, 14, 1)]
    assert partition.next_fetch_offset() == 15


def test_a_record_limit_is_never_exceeded_and_the_rest_of_the_batch_is_free_for_others() -> None:
    partition, log = _partition(), _spans(10)
    assert _take(partition, log, Want(3, 500, strict=True)) == [Acquired(0, 2, 1)]
    assert partition.next_fetch_offset() == 3
    assert _take(partition, log, Want(4, 500, strict=True), member="b") == [Acquired(3, 6, 1)]
    assert _take(partition, log, member="c") == [Acquired(7, 9, 1)]


def test_what_is_acquired_comes_in_pieces_of_the_batch_size_cut_at_batches_of_the_log() -> None:
    partition = _partition()
    assert _take(partition, _spans(4, 4, 4, 4), Want(500, 6)) == [Acquired(0, 7, 1), Acquired(8, 15, 1)]


def test_no_record_is_acquired_beyond_the_lock_limit_but_one_that_is_free_again_is() -> None:
    partition, log = _partition(record_locks=4), _spans(4, 4)
    assert _take(partition, log) == [Acquired(0, 3, 1)]
    assert not partition.may_acquire()
    _done(partition, 1, 1, AcknowledgeType.RELEASE)
    assert partition.may_acquire()
    assert _take(partition, log, member="b") == [Acquired(1, 1, 2)]


def test_accepting_the_first_records_moves_the_start_and_the_others_wait() -> None:
    partition = _partition()
    _take(partition, _spans(5))
    _done(partition, 2, 4, AcknowledgeType.ACCEPT)
    assert (partition.start, partition.complete_count()) == (0, 3)
    _done(partition, 0, 1, AcknowledgeType.ACCEPT)
    assert (partition.start, partition.end, partition.batches, partition.complete_count()) == (5, 5, [], 0)


def test_each_record_of_a_batch_may_have_its_own_acknowledgement() -> None:
    partition = _partition()
    _take(partition, _spans(4))
    change = acknowledge(partition, "a", [Acknowledgement(0, 3, (1, 2, 3, 0))], 0)
    assert change.batches == [
        StateBatch(0, 0, S.ACKNOWLEDGED, 1),
        StateBatch(1, 1, S.AVAILABLE, 1),
        StateBatch(2, 3, S.ARCHIVED, 1),
    ]
    assert partition.next_fetch_offset() == 4, "what is being stored is not free yet"
    partition.finish(change, True, 0)
    assert (partition.start, partition.next_fetch_offset()) == (1, 1)


def test_a_whole_batch_is_acknowledged_in_one_step() -> None:
    partition = _partition()
    _take(partition, _spans(400))
    change = acknowledge(partition, "a", [Acknowledgement(0, 399, (1,))], 0)
    assert change.batches == [StateBatch(0, 399, S.ACKNOWLEDGED, 1)]


def test_a_wrong_acknowledgement_undoes_those_before_it_in_the_request() -> None:
    partition = _partition()
    _take(partition, _spans(4, 4), Want(4, 4))
    with pytest.raises(AcknowledgementRefused, match="past acquired records") as refused:
        acknowledge(partition, "a", [Acknowledgement(0, 3, (1,)), Acknowledgement(7, 9, (1,))], 0)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert [state.state for _, _, state in partition.states()] == [S.ACQUIRED]
    _done(partition, 0, 3, AcknowledgeType.ACCEPT)


@pytest.mark.parametrize(
    ("first", "last", "types", "member", "code", "message"),
    [
        (0, 3, (1,), "b", ErrorCode.INVALID_RECORD_STATE, "Member is not the owner of batch record"),
        (0, 3, (5,), "a", ErrorCode.INVALID_REQUEST, r"Invalid acknowledge type: \[5\]"),
        (0, 5, (1,), "a", ErrorCode.INVALID_REQUEST, "The last offset in request is past acquired records"),
        (8, 9, (1,), "a", ErrorCode.INVALID_REQUEST, "The first offset in request is past acquired records"),
    ],
)
def test_a_wrong_acknowledgement_has_apaches_error(
    first: int, last: int, types: tuple[int, ...], member: str, code: ErrorCode, message: str
) -> None:
    partition = _partition()
    _take(partition, _spans(4))
    with pytest.raises(AcknowledgementRefused, match=message) as refused:
        acknowledge(partition, member, [Acknowledgement(first, last, types)], 0)
    assert refused.value.code is code


def test_an_acknowledgement_before_any_record_was_acquired_is_refused() -> None:
    with pytest.raises(AcknowledgementRefused, match="not found in the cache"):
        acknowledge(_partition(), "a", [Acknowledgement(0, 3, (1,))], 0)


def test_a_record_that_is_acknowledged_twice_is_refused_the_second_time() -> None:
    partition = _partition()
    _take(partition, _spans(4))
    acknowledge(partition, "a", [Acknowledgement(0, 1, (1,))], 0)
    with pytest.raises(AcknowledgementRefused, match="The offset is not acquired"):
        acknowledge(partition, "a", [Acknowledgement(0, 3, (1,))], 0)


def test_a_lock_that_times_out_makes_its_records_free_and_keeps_their_deliveries() -> None:
    partition, log = _partition(lock_ms=1000), _spans(4)
    _take(partition, log)
    assert next_lock_end_ms(partition) == 1000
    assert release_expired(partition, 999).batches == []
    assert release_expired(partition, 1000).batches == [StateBatch(0, 3, S.AVAILABLE, 1)]
    assert _take(partition, log, member="b", now_ms=1000) == [Acquired(0, 3, 2)]


def test_a_renewed_record_is_locked_for_another_time_and_the_others_are_not() -> None:
    partition = _partition(lock_ms=1000)
    _take(partition, _spans(3))
    change = acknowledge(partition, "a", [Acknowledgement(1, 1, (4,))], 600)
    assert change.batches == []
    assert release_expired(partition, 1000).batches == [
        StateBatch(0, 0, S.AVAILABLE, 1),
        StateBatch(2, 2, S.AVAILABLE, 1),
    ]
    assert next_lock_end_ms(partition) == 1600


def test_a_renewal_is_refused_where_the_group_forbids_it() -> None:
    partition = _partition(renewal=False)
    _take(partition, _spans(3))
    with pytest.raises(AcknowledgementRefused, match="Renewing acquisition locks is not enabled for the group"):
        acknowledge(partition, "a", [Acknowledgement(0, 2, (4,))], 0)


def test_a_record_that_was_delivered_as_often_as_allowed_is_archived_when_it_is_released() -> None:
    partition, log = _partition(deliveries=2), _spans(2)
    for _ in range(2):
        assert len(_take(partition, log)) == 1
        _done(partition, 0, 1, AcknowledgeType.RELEASE)
    assert (partition.start, partition.next_fetch_offset()) == (2, 2)


def test_records_that_fail_often_come_in_ever_smaller_parts_and_the_last_time_alone() -> None:
    partition, log = _partition(deliveries=5), _spans(8)
    sizes = []
    for _ in range(5):
        first, last, deliveries = _take(partition, log)[0]
        sizes.append((last - first + 1, deliveries))
        _done(partition, first, last, AcknowledgeType.RELEASE)
    assert sizes == [(8, 1), (8, 2), (8, 3), (4, 4), (1, 5)]


def test_a_member_that_leaves_releases_what_it_has_and_nothing_of_others() -> None:
    partition, log = _partition(), _spans(3, 3)
    _take(partition, log, Want(3, 3))
    _take(partition, log, Want(3, 3), member="b")
    change = release_member(partition, "a")
    assert change.batches == [StateBatch(0, 2, S.AVAILABLE, 1)]
    partition.finish(change, True, 0)
    assert partition.next_fetch_offset() == 0


def test_a_change_that_cannot_be_stored_is_undone_and_a_lock_that_lapsed_meanwhile_is_released() -> None:
    partition = _partition(lock_ms=1000)
    _take(partition, _spans(3))
    change = acknowledge(partition, "a", [Acknowledgement(0, 2, (1,))], 0)
    partition.finish(change, False, 500)
    assert [(state.state, state.member) for _, _, state in partition.states()] == [(S.ACQUIRED, "a")]
    change = acknowledge(partition, "a", [Acknowledgement(0, 2, (1,))], 600)
    partition.finish(change, False, 1000)
    assert [(state.state, state.member) for _, _, state in partition.states()] == [(S.AVAILABLE, "")]


def test_records_of_an_aborted_transaction_are_archived_and_not_delivered() -> None:
    partition = _partition()
    log = _spans(2, 3, 2)
    fetched = Fetched(0, log, aborted=[log[1]])
    assert acquire(partition, "a", fetched, WIDE, 0) == [Acquired(0, 1, 1), Acquired(5, 6, 1)]
    assert [state.state for _, _, state in partition.states()] == [S.ACQUIRED] * 2 + [S.ARCHIVED] * 3 + [S.ACQUIRED] * 2


def test_the_stored_states_are_taken_up_and_their_holes_are_delivered() -> None:
    stored = [StateBatch(2, 3, S.ACKNOWLEDGED, 1), StateBatch(6, 7, S.AVAILABLE, 3), StateBatch(8, 8, S.ARCHIVED, 5)]
    partition, log = SharePartition(ShareLimits(), 0, stored), _spans(5, 5)
    assert (partition.start, partition.end, partition.next_fetch_offset()) == (0, 8, 0)
    assert _take(partition, log, Want(3, 3)) == [Acquired(0, 1, 1), Acquired(4, 4, 1)]
    assert _take(partition, log) == [Acquired(5, 5, 1)], "what was delivered three times comes apart from the others"
    assert _take(partition, log) == [Acquired(6, 6, 4)]


def test_a_record_on_its_way_to_a_dead_letter_queue_is_still_on_its_way_after_a_restart() -> None:
    stored = [StateBatch(0, 3, S.ARCHIVING, 5), StateBatch(4, 4, S.ARCHIVING, 1)]
    partition = SharePartition(ShareLimits(dead_letters=True), 0, stored)
    assert (partition.start, partition.next_fetch_offset()) == (0, 5)
    given_up = partition.given_up()
    assert given_up == [GivenUp(0, 3, 5, False), GivenUp(4, 4, 1, True)]
    for each in given_up:
        partition.finish(partition.buried(each), True, 0)
    assert (partition.start, partition.batches) == (5, [])


def test_records_that_are_rejected_or_delivered_too_often_wait_for_the_dead_letter_queue() -> None:
    partition = _partition(deliveries=2, dead_letters=True)
    assert _take(partition, _spans(6)) == [Acquired(0, 5, 1)]
    asked = [Acknowledgement(0, 3, (1, 3, 3, 2)), Acknowledgement(4, 5, (0,))]
    change = acknowledge(partition, "a", asked, 0)
    assert change.batches[1] == StateBatch(1, 2, S.ARCHIVING, 1)
    assert change.batches[-1] == StateBatch(4, 5, S.ARCHIVED, 1), "a gap is no record, and no dead letter"
    partition.finish(change, True, 0)
    assert partition.start == 1, "they hold the start until they are in the queue"
    (rejected,) = change.given_up
    assert rejected == GivenUp(1, 2, 1, True)
    assert _take(partition, _spans(6)) == [Acquired(3, 3, 2)]
    late = release_expired(partition, 60_000)
    assert late.given_up == [GivenUp(3, 3, 2, False)]
    for each in (rejected, *late.given_up):
        buried = partition.buried(each)
        assert buried.batches == [StateBatch(each.first, each.last, S.ARCHIVED, each.deliveries)]
        partition.finish(buried, True, 0)
    assert (partition.start, partition.batches) == (6, [])


def test_a_fetch_reads_no_further_than_it_can_acquire() -> None:
    partition, log = _partition(), _spans(5, 5, 5, 5)
    assert partition.enough(0, 7) >= 6
    _take(partition, log, Want(15, 5))
    _done(partition, 0, 1, AcknowledgeType.RELEASE)
    _done(partition, 7, 9, AcknowledgeType.RELEASE)
    assert partition.enough(0, 2) == 4, "a batch in flight counts as a whole"
    assert partition.enough(0, 3) == 9
    assert 15 <= partition.enough(0, 7) <= 17
    read = [each for each in log if each.first <= partition.enough(0, 4)]
    assert _take(partition, read, Want(4, 500, True)) == [Acquired(0, 1, 2), Acquired(7, 8, 2)]


@pytest.mark.parametrize("stored", [[(0, 3)], [(5, 4)], [(5, 6), (6, 7)]])
def test_stored_states_that_contradict_each_other_are_refused(stored: list[tuple[int, int]]) -> None:
    with pytest.raises(BadShareState, match="out of order"):
        SharePartition(ShareLimits(), 2, [StateBatch(first, last, S.AVAILABLE, 1) for first, last in stored])


def test_a_start_of_the_log_that_moves_archives_free_records_and_locked_ones_when_they_are_released() -> None:
    partition, log = _partition(), _spans(4, 4)
    _take(partition, log, Want(4, 4))
    _done(partition, 0, 0, AcknowledgeType.RELEASE)
    partition.log_starts_at(2)
    assert partition.start == 2
    assert [state.state for _, _, state in partition.states()] == [S.ARCHIVED, S.ACQUIRED, S.ACQUIRED, S.ACQUIRED]
    change = release_member(partition, "a")
    assert change.batches == [
        StateBatch(1, 1, S.ARCHIVED, 1), StateBatch(2, 3, S.AVAILABLE, 1),
    ]  # fmt: skip


def test_records_that_compaction_removed_are_archived_when_a_fetch_does_not_find_them() -> None:
    partition = _partition()
    _take(partition, _spans(4, 4))
    _done(partition, 0, 7, AcknowledgeType.RELEASE)
    assert _take(partition, [Span(6, 7)]) == [Acquired(6, 7, 2)]
    assert partition.start == 6
