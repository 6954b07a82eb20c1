"""Transaction.version 2 over the pure state machine (KIP-890): each end of a transaction gives the producer its next epoch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.broker.errors import BrokerError, ErrorCode
from streamactors.broker.transaction.transaction import TransactionState
from streamactors.broker.transaction.transaction_events import TimeoutCheck
from tests.broker.transaction.transaction_world import P0, P1, World

E = ErrorCode
S = TransactionState


def a_world(epoch: int | None = None) -> tuple[World, tuple[int, int]]:
    """Return a world of version 2, and its producer, which is at this epoch."""
    world = World(version=2)
    producer = world.producer()
    if epoch is not None:
        world.ids["tx"] = replace(world.ids["tx"], producer_epoch=epoch)
        producer = (producer[0], epoch)
    return world, producer


@pytest.mark.parametrize("commit", [True, False])
def test_the_end_and_its_markers_have_the_next_epoch(commit: bool) -> None:
    world, producer = a_world()
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "a")
    bumped = (producer[0], producer[1] + 1)
    assert world.next_producer(world.end(producer, commit)) == bumped
    assert world.partition(P0).markers == [(1, *bumped, commit)]
    assert world.ids["tx"].producer_epoch == bumped[1]
    with pytest.raises(BrokerError) as late:
        world.partition(P0).write(*producer, 1, "late")
    assert late.value.code is E.INVALID_PRODUCER_EPOCH
    assert world.error(world.add(bumped, P0)) is E.NONE
    world.partition(P0).write(*bumped, 0, "b")  # sequences begin again with each epoch


@pytest.mark.parametrize("commit", [True, False])
def test_an_end_whose_answer_was_lost_is_answered_again_when_the_markers_are_written(commit: bool) -> None:
    world, producer = a_world()
    world.add(producer, P0)
    world.auto = False
    first = world.end(producer, commit)
    assert world.error(world.end(producer, commit)) is E.CONCURRENT_TRANSACTIONS  # the decision is being written
    world.written()
    assert world.error(world.end(producer, commit)) is E.CONCURRENT_TRANSACTIONS  # the markers are on their way
    assert world.error(world.end(producer, not commit)) is E.CONCURRENT_TRANSACTIONS
    world.settle()
    again = world.end(producer, commit)
    assert world.next_producer(again) == world.next_producer(first) == (producer[0], producer[1] + 1)
    assert world.error(world.end(producer, not commit)) is E.INVALID_TXN_STATE
    assert len(world.partition(P0).markers) == 1


@pytest.mark.parametrize("after", ["init", "commit", "abort"])
def test_an_abort_without_a_partition_bumps_the_epoch_and_a_commit_is_refused(after: str) -> None:
    world, producer = a_world()
    if after != "init":
        world.add(producer, P0)
        producer = world.next_producer(world.end(producer, after == "commit"))
    world.now_ms = 9_000
    assert world.error(world.end(producer, True)) is E.INVALID_TXN_STATE
    assert world.next_producer(world.end(producer, False)) == (producer[0], producer[1] + 1)
    assert (world.ids["tx"].state, world.ids["tx"].started_at_ms) == (S.COMPLETE_ABORT, 9_000)


def test_only_the_epoch_before_the_current_one_is_a_repeated_end() -> None:
    world, producer = a_world()
    assert world.error(world.end((producer[0], producer[1] - 1), False)) is E.PRODUCER_FENCED  # nothing has ended yet
    for _ in range(2):
        world.add(producer, P0)
        producer = world.next_producer(world.end(producer, True))
    assert world.error(world.end((producer[0], producer[1] - 2), True)) is E.PRODUCER_FENCED
    assert world.error(world.end((producer[0], producer[1] + 1), True)) is E.PRODUCER_FENCED
    assert world.error(world.end((producer[0] + 1, producer[1]), True)) is E.INVALID_PRODUCER_ID_MAPPING
    world.add(producer, P0)
    assert world.error(world.end((producer[0], producer[1] - 1), True)) is E.PRODUCER_FENCED


@pytest.mark.parametrize("commit", [True, False])
def test_a_new_producer_id_follows_the_last_epoch(commit: bool) -> None:
    world, producer = a_world(32_766)
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "a")
    world.auto = False
    end = world.end(producer, commit)
    world.written()
    new = world.next_producer(end)
    assert new == (1_001, 0)
    prepared = world.ids["tx"]
    assert (prepared.producer_id, prepared.producer_epoch, prepared.next_producer_id) == (producer[0], 32_767, 1_001)
    assert world.error(world.add(new, P0)) is E.CONCURRENT_TRANSACTIONS  # the producer has its id before the markers
    world.settle()
    done = world.ids["tx"]
    assert (done.producer_id, done.producer_epoch, done.previous_producer_id) == (*new, producer[0])
    assert done.next_producer_id == -1
    assert world.partition(P0).markers == [(1, producer[0], 32_767, commit)]
    assert world.next_producer(world.end(producer, commit)) == new  # the answer was lost
    world.auto = True
    assert world.error(world.add(new, P1)) is E.NONE
    assert world.error(world.end(producer, commit)) is E.INVALID_PRODUCER_ID_MAPPING


def test_a_new_producer_id_survives_the_coordinator() -> None:
    world, producer = a_world(32_766)
    world.add(producer, P0)
    world.auto = False
    new = (1_001, 0)
    end = world.end(producer, True)
    world.written()
    assert world.next_producer(end) == new
    world.crash()
    world.settle()
    assert (world.ids["tx"].producer_id, world.ids["tx"].producer_epoch) == new
    assert world.next_producer(world.end(producer, True)) == new


def test_a_timeout_bumps_once_and_the_producer_that_aborts_goes_on() -> None:
    world, producer = a_world()
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "a")
    world.now_ms += 60_001
    world.step("tx", TimeoutCheck(cluster_version=2))
    assert world.partition(P0).aborted == ["a"]
    with pytest.raises(BrokerError) as zombie:
        world.partition(P0).write(*producer, 1, "b")
    assert zombie.value.code is E.INVALID_PRODUCER_EPOCH
    assert world.error(world.add(producer, P1)) is E.PRODUCER_FENCED
    assert world.error(world.end(producer, True)) is E.INVALID_TXN_STATE
    assert world.next_producer(world.end(producer, False)) == (producer[0], producer[1] + 1)


def test_a_timeout_at_the_last_epoch_takes_a_new_producer_id() -> None:
    world, producer = a_world(32_766)
    world.add(producer, P0)
    world.now_ms += 60_001
    world.step("tx", TimeoutCheck(cluster_version=2))
    assert (world.ids["tx"].producer_id, world.ids["tx"].producer_epoch) == (1_001, 0)
    assert world.producer() == (1_001, 1)


def test_a_new_producer_gets_an_epoch_that_the_fenced_one_never_had() -> None:
    world, old = a_world()
    world.add(old, P0)
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    assert world.producer() == (old[0], old[1] + 2)
    assert world.error(world.end(old, False)) is E.PRODUCER_FENCED


def test_a_fence_that_could_not_be_written_changes_nothing() -> None:
    world, old = a_world()
    world.add(old, P0)
    before = world.ids["tx"]
    world.auto = False
    token = world.init()
    world.written(E.COORDINATOR_NOT_AVAILABLE)
    assert world.error(token) is E.COORDINATOR_NOT_AVAILABLE
    assert world.ids["tx"] == before


def test_producers_of_both_protocols_take_turns() -> None:
    # The cluster was upgraded while a producer of the old protocol was in a transaction; a producer of the new one follows, then the old one again.
    world, old = a_world()
    world.add(old, P0, version=0)
    world.partition(P0).write(*old, 0, "a")
    assert world.error(world.end(old, True, version=0)) is E.NONE
    assert world.partition(P0).markers[-1][1:3] == old
    assert world.error(world.end(old, True, version=0)) is E.NONE
    new = world.producer()
    world.add(new, P0)
    world.partition(P0).write(*new, 0, "b")
    bumped = world.next_producer(world.end(new, True))
    old = world.producer()
    assert old == (bumped[0], bumped[1] + 1)
    world.add(old, P0, version=0)
    world.partition(P0).write(*old, 0, "c")
    assert world.error(world.end(old, False, version=0)) is E.NONE
    assert (world.partition(P0).committed, world.partition(P0).aborted) == (["a", "b"], ["c"])


def test_a_marker_that_came_late_does_not_end_the_next_transaction() -> None:
    # The marker is sent twice: its first answer was lost -> the producer begins the next transaction with the same epoch as the marker.
    world, producer = a_world()
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "a")
    bumped = world.next_producer(world.end(producer, True))
    data = world.partition(P0)
    assert data.mark(*bumped, 0, True, 2) is E.NONE  # nothing is open: the same marker again does no harm
    world.add(bumped, P0)
    data.write(*bumped, 0, "b")
    assert data.mark(*bumped, 0, True, 2) is E.INVALID_PRODUCER_EPOCH
    assert data.open == {bumped[0]: ["b"]}
    assert data.mark(*bumped, 0, False, 0) is E.NONE  # of the old protocol the epoch says nothing
