"""The epochs of a transactional id: who is fenced, who continues, and what happens when the epochs run out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import MAX_EPOCH, Transaction, TransactionState
from tests.broker.transaction.transaction_world import P0, P1, World

E = ErrorCode
S = TransactionState


def test_a_new_transactional_id_gets_epoch_0() -> None:
    world = World()
    assert world.producer() == (1_000, 0)


def test_every_new_producer_of_an_id_gets_the_next_epoch() -> None:
    world = World()
    producer_id, _ = world.producer()
    assert [world.producer() for _ in range(3)] == [(producer_id, 1), (producer_id, 2), (producer_id, 3)]


@pytest.mark.parametrize(
    ("shift", "error"),
    [((1, 0), E.INVALID_PRODUCER_ID_MAPPING), ((0, -1), E.PRODUCER_FENCED), ((0, 1), E.PRODUCER_FENCED)],
)
def test_a_stranger_changes_nothing(shift: tuple[int, int], error: ErrorCode) -> None:
    world = World()
    world.producer()
    producer = world.producer()
    world.add(producer, P0)
    before = world.ids["tx"]
    stranger = (producer[0] + shift[0], producer[1] + shift[1])
    assert world.error(world.add(stranger, P1)) is error
    assert world.error(world.end(stranger, True)) is error
    assert world.verify(stranger, P0) == {P0: error}
    assert world.ids["tx"] is before


def test_a_new_producer_aborts_the_open_transaction_of_its_predecessor() -> None:
    world = World()
    old = world.producer()
    world.add(old, P0)
    world.partition(P0).write(*old, 0, "half")
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    assert world.partition(P0).aborted == ["half"]
    new = world.producer()
    assert new == (old[0], old[1] + 2)  # the epoch in between fenced, and is never written with
    assert world.error(world.end(old, True)) is E.PRODUCER_FENCED


def test_a_fence_that_could_not_be_written_does_not_bump_again() -> None:
    world = World()
    old = world.producer()
    world.add(old, P0)
    world.auto = False
    token = world.init()
    world.written(E.COORDINATOR_NOT_AVAILABLE)
    assert world.error(token) is E.COORDINATOR_NOT_AVAILABLE
    assert world.error(world.end(old, True)) is E.PRODUCER_FENCED  # the fence holds all the same
    world.auto = True
    world.init()
    assert world.producer() == (old[0], old[1] + 2)


def test_a_producer_continues_with_its_next_epoch() -> None:
    world = World()
    producer_id, epoch = world.producer()
    assert world.producer(claim=(producer_id, epoch)) == (producer_id, epoch + 1)
    # its answer was lost: the same claim again gives the same epoch
    assert world.producer(claim=(producer_id, epoch)) == (producer_id, epoch + 1)
    assert world.producer(claim=(producer_id, epoch + 1)) == (producer_id, epoch + 2)


def test_a_claim_of_an_epoch_that_is_over_is_fenced() -> None:
    world = World()
    producer_id, epoch = world.producer()
    world.producer()
    assert world.error(world.init(claim=(producer_id, epoch))) is E.PRODUCER_FENCED
    assert world.error(world.init(claim=(producer_id + 1, epoch))) is E.PRODUCER_FENCED


def test_a_fenced_producer_cannot_abort_its_successors_transaction() -> None:
    world = World()
    old = world.producer()
    new = world.producer()
    world.add(new, P0)
    assert world.error(world.init(claim=old)) is E.PRODUCER_FENCED
    assert world.ids["tx"].state is S.ONGOING
    assert world.error(world.end(new, True)) is E.NONE


def test_a_new_producer_id_follows_when_the_epochs_run_out() -> None:
    world = World()
    producer_id, _ = world.producer()
    world.ids["tx"] = replace(world.ids["tx"], producer_epoch=32_765)
    assert world.producer() == (producer_id, 32_766)
    assert world.producer() == (1_001, 0)
    assert world.ids["tx"].previous_producer_id == producer_id


def test_the_last_epoch_is_kept_for_fencing() -> None:
    world = World()
    producer_id, _ = world.producer()
    world.ids["tx"] = replace(world.ids["tx"], producer_epoch=32_766)
    world.add((producer_id, 32_766), P0)
    world.init()
    assert world.partition(P0).markers == [(0, producer_id, 32_767, False)]
    assert world.producer() == (1_001, 0)


def test_a_lost_answer_with_a_new_producer_id_is_given_again() -> None:
    world = World()
    producer_id, _ = world.producer()
    world.ids["tx"] = replace(world.ids["tx"], producer_epoch=32_766)
    assert world.producer(claim=(producer_id, 32_766)) == (1_001, 0)
    assert world.producer(claim=(producer_id, 32_766)) == (1_001, 0)


@pytest.mark.parametrize(
    ("claim", "knows_itself"),
    [
        ((7, MAX_EPOCH - 1), True),  # the last epoch of the id before: the answer with the new id was lost
        ((7, 3), False),  # an old producer
        ((6, MAX_EPOCH - 1), False),  # the last epoch of an id that was never this one's
    ],
)
def test_only_the_last_epoch_of_the_producer_id_before_is_taken_for_the_newest_producer(
    claim: tuple[int, int], knows_itself: bool
) -> None:
    world = World()
    world.ids["tx"] = Transaction("tx", 8, 0, last_producer_epoch=claim[1], previous_producer_id=7)
    answer = world.answers[world.init(claim=claim)]
    assert answer.error is (E.NONE if knows_itself else E.PRODUCER_FENCED)
