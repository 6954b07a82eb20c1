"""Which refused batch must come before a later one of its producer: pure."""

from __future__ import annotations

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.log.producers.refused_batches import (
    MOMENTARY,
    REMEMBERED_BATCHES,
    REMEMBERED_MS,
    ProducerBatch,
    RefusedBatches,
    batch_of,
)
from streamactors.broker.records.header import MAX_SEQUENCE
from tests.broker.live_broker import batch

PLACE = ("orders", 0)
REFUSED = ErrorCode.NOT_ENOUGH_REPLICAS


def at(sequence: int, *, producer: int = 7, epoch: int = 0) -> ProducerBatch:
    return ProducerBatch(producer, epoch, sequence)


@pytest.fixture
def refused() -> RefusedBatches:
    """4 was refused."""
    refused = RefusedBatches()
    refused.note(PLACE, at(4), REFUSED, 0)
    return refused


def test_a_batch_behind_the_refused_one_gets_its_error(refused: RefusedBatches) -> None:
    assert refused
    assert refused.error_of_earlier(PLACE, at(5), 4, 1) is REFUSED
    assert refused.error_of_earlier(PLACE, at(9), 4, 1) is REFUSED


def test_the_log_judges_the_refused_one_and_those_before_it(refused: RefusedBatches) -> None:
    for sequence in (4, 3, 0):
        assert refused.error_of_earlier(PLACE, at(sequence), 4, 1) is None


def test_the_log_judges_a_batch_that_follows_its_last_one(refused: RefusedBatches) -> None:
    # 4 was a repeat: another leader wrote it, and this one copied it.
    assert refused.error_of_earlier(PLACE, at(5), 5, 1) is None
    assert refused.error_of_earlier(PLACE, at(5), 6, 1) is None


def test_behind_a_repeat_a_later_gap_is_explained_too(refused: RefusedBatches) -> None:
    refused.note(PLACE, at(5), REFUSED, 1)
    assert refused.error_of_earlier(PLACE, at(6), 5, 1) is REFUSED


def test_a_gap_before_the_refused_one_is_a_gap(refused: RefusedBatches) -> None:
    assert refused.error_of_earlier(PLACE, at(5), 3, 1) is None


def test_an_unknown_producer_must_not_begin_behind_the_refused_one(refused: RefusedBatches) -> None:
    assert refused.error_of_earlier(PLACE, at(5), None, 1) is REFUSED
    assert refused.error_of_earlier(PLACE, at(4), None, 1) is None


def test_others_are_not_concerned(refused: RefusedBatches) -> None:
    assert refused.error_of_earlier(("orders", 1), at(5), 4, 1) is None
    assert refused.error_of_earlier((b"orders", 0), at(5), 4, 1) is None
    assert refused.error_of_earlier(PLACE, at(5, producer=8), 4, 1) is None
    assert refused.error_of_earlier(PLACE, at(5, epoch=1), 0, 1) is None


def test_the_earliest_of_an_epoch_counts(refused: RefusedBatches) -> None:
    refused.note(PLACE, at(2), ErrorCode.NOT_LEADER_OR_FOLLOWER, 1)
    refused.note(PLACE, at(3), REFUSED, 1)
    assert refused.error_of_earlier(PLACE, at(3), None, 1) is ErrorCode.NOT_LEADER_OR_FOLLOWER
    refused.note(PLACE, at(0, epoch=1), REFUSED, 1)
    refused.note(PLACE, at(1), REFUSED, 1)  # a late one of the epoch before
    assert refused.error_of_earlier(PLACE, at(5), None, 1) is None
    assert refused.error_of_earlier(PLACE, at(1, epoch=1), None, 1) is REFUSED


def test_sequence_numbers_wrap(refused: RefusedBatches) -> None:
    refused.note(PLACE, at(MAX_SEQUENCE, epoch=1), REFUSED, 0)
    assert refused.error_of_earlier(PLACE, at(0, epoch=1), MAX_SEQUENCE, 1) is REFUSED
    assert refused.error_of_earlier(PLACE, at(MAX_SEQUENCE - 1, epoch=1), MAX_SEQUENCE, 1) is None


def test_a_batch_that_was_taken_ends_it(refused: RefusedBatches) -> None:
    refused.note(("orders", 1), at(0), REFUSED, 0)
    refused.forget(PLACE, 7)
    assert refused.error_of_earlier(PLACE, at(5), 4, 1) is None
    assert refused.error_of_earlier(("orders", 1), at(5), 0, 1) is REFUSED
    refused.forget(("orders", 1), 7)
    refused.forget(PLACE, 8)
    assert not refused


def test_a_refusal_is_over_after_a_time_unless_the_batch_comes_again(refused: RefusedBatches) -> None:
    refused.note(PLACE, at(5), REFUSED, REMEMBERED_MS - 1)  # a later one says nothing of the first
    assert refused.error_of_earlier(PLACE, at(5), 4, REMEMBERED_MS - 1) is REFUSED
    refused.note(PLACE, at(4), REFUSED, REMEMBERED_MS - 1)
    assert refused.error_of_earlier(PLACE, at(5), 4, 2 * REMEMBERED_MS - 2) is REFUSED
    assert refused.error_of_earlier(PLACE, at(5), 4, 2 * REMEMBERED_MS - 1) is None
    assert not refused


def test_only_so_many_are_remembered(refused: RefusedBatches) -> None:
    for partition in range(1, REMEMBERED_BATCHES):
        refused.note(("orders", partition), at(4), REFUSED, 1)
    assert refused.error_of_earlier(PLACE, at(5), 4, 1) is REFUSED
    refused.note(("orders", REMEMBERED_BATCHES), at(4), REFUSED, 1)
    assert refused.error_of_earlier(PLACE, at(5), 4, 1) is None
    assert refused.error_of_earlier(("orders", 1), at(5), 4, 1) is REFUSED


def test_batches_without_a_producer_have_no_order() -> None:
    assert batch_of(memoryview(batch(b"a", producer=(7, 3), sequence=4))) == (7, 3, 4)
    assert batch_of(memoryview(batch(b"a"))) is None
    assert batch_of(memoryview(batch(b"a", producer=(7, 3), sequence=4)[:60])) is None


def test_errors_after_which_a_producer_does_not_send_again_are_not_momentary() -> None:
    assert not MOMENTARY & {
        ErrorCode.NONE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.INVALID_TXN_STATE,
    }
