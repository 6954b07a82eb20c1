"""Kafka's transaction protocol, told as sentences over the pure state machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import MAX_EPOCH, MOVES, TopicPartition, Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import ExpiryCheck, MarkersWritten, TimeoutCheck
from tests.broker.transaction.transaction_world import World

E = ErrorCode
S = TransactionState
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_a_new_transactional_id_gets_epoch_0() -> None:
    world = World()
    assert world.producer() == (1_000, 0)


def test_every_new_producer_of_an_id_gets_the_next_epoch() -> None:
    world = World()
    producer_id, _ = world.producer()
    assert [world.producer() for _ in range(3)] == [(producer_id, 1), (producer_id, 2), (producer_id, 3)]


def test_a_transaction_commits_in_every_partition() -> None:
    world = World()
    producer = world.producer()
    assert world.error(world.add(producer, P0, P1)) is E.NONE
    world.partition(P0).write(*producer, 0, "a")
    world.partition(P1).write(*producer, 0, "b")
    assert world.error(world.end(producer, True)) is E.NONE
    assert (world.partition(P0).committed, world.partition(P1).committed) == (["a"], ["b"])
    assert world.ids["tx"].state is S.COMPLETE_COMMIT
    assert world.ids["tx"].partitions == frozenset()


def test_the_decision_is_answered_when_it_is_in_the_log_before_any_marker() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    end = world.end(producer, True)
    assert end not in world.answers
    world.written()
    assert world.error(end) is E.NONE
    assert len(world.markers) == 1
    assert world.ids["tx"].state is S.PREPARE_COMMIT


def test_nothing_else_happens_while_markers_are_on_their_way() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    world.end(producer, True)
    world.written()
    assert world.error(world.add(producer, P1)) is E.CONCURRENT_TRANSACTIONS
    assert world.error(world.end(producer, True)) is E.CONCURRENT_TRANSACTIONS
    assert world.error(world.end(producer, False)) is E.INVALID_TXN_STATE
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    assert world.verify(producer, P0) == {P0: E.CONCURRENT_TRANSACTIONS}
    world.settle()
    world.auto = True
    assert world.error(world.add(producer, P1)) is E.NONE
    assert world.ids["tx"].partitions == {P1}


def test_nothing_else_happens_while_the_log_is_being_written() -> None:
    world = World()
    producer = world.producer()
    world.auto = False
    first = world.add(producer, P0)
    assert world.error(world.add(producer, P1)) is E.CONCURRENT_TRANSACTIONS
    assert world.error(world.end(producer, True)) is E.CONCURRENT_TRANSACTIONS
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    world.written()
    assert world.error(first) is E.NONE


def test_ending_again_the_same_way_is_answered_again() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.end(producer, True)
    assert world.error(world.end(producer, True)) is E.NONE
    assert world.error(world.end(producer, False)) is E.INVALID_TXN_STATE
    assert len(world.partition(P0).markers) == 1


def test_a_transaction_that_never_began_cannot_end() -> None:
    world = World()
    producer = world.producer()
    assert world.error(world.end(producer, True)) is E.INVALID_TXN_STATE
    assert world.error(world.end(producer, False)) is E.INVALID_TXN_STATE


def test_adding_the_same_partitions_again_writes_nothing() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    assert world.error(world.add(producer, P0)) is E.NONE
    assert world.writes == []


def test_the_transaction_begins_with_its_first_partition() -> None:
    world = World()
    producer = world.producer()
    world.now_ms = 5_000
    world.add(producer, P0)
    world.now_ms = 6_000
    world.add(producer, P1)
    assert (world.ids["tx"].started_at_ms, world.ids["tx"].updated_at_ms) == (5_000, 6_000)


# -- fencing -----------------------------------------------------------------------------------------------------------


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


# -- verification ------------------------------------------------------------------------------------------------------


def test_a_partition_outside_the_transaction_is_noticed() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    assert world.verify(producer, P0, P1) == {P0: E.NONE, P1: E.TRANSACTION_ABORTABLE}


# -- time --------------------------------------------------------------------------------------------------------------


def test_a_transaction_open_for_too_long_is_fenced_and_aborted() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "late")
    world.now_ms += 10_000
    world.step("tx", TimeoutCheck())
    assert world.ids["tx"].state is S.ONGOING
    world.now_ms += 1
    world.step("tx", TimeoutCheck())
    assert world.partition(P0).aborted == ["late"]
    assert world.error(world.end(producer, True)) is E.PRODUCER_FENCED


def test_a_decided_transaction_never_times_out() -> None:
    world = World()
    producer = world.producer(timeout_ms=10_000)
    world.add(producer, P0)
    world.auto = False
    world.end(producer, True)
    world.written()
    world.now_ms += 1_000_000
    world.step("tx", TimeoutCheck())
    assert world.writes == []
    world.settle()
    assert world.ids["tx"].state is S.COMPLETE_COMMIT


def test_an_unused_id_is_forgotten() -> None:
    world = World()
    world.producer()
    world.now_ms += 99
    world.step("tx", ExpiryCheck(100))
    assert "tx" in world.ids
    world.now_ms += 1
    world.step("tx", ExpiryCheck(100))
    assert "tx" not in world.ids
    assert world.log["tx"] is None


def test_an_open_transaction_keeps_its_id() -> None:
    world = World()
    world.add(world.producer(), P0)
    world.now_ms += 10**9
    world.step("tx", ExpiryCheck(100))
    assert world.ids["tx"].state is S.ONGOING


def test_an_expiring_id_refuses_every_producer() -> None:
    world = World()
    producer = world.producer()
    world.auto = False
    world.now_ms += 1_000
    world.step("tx", ExpiryCheck(100))
    assert world.error(world.init()) is E.CONCURRENT_TRANSACTIONS
    assert world.error(world.add(producer, P0)) is E.CONCURRENT_TRANSACTIONS
    world.written(E.NOT_COORDINATOR)
    assert world.ids["tx"].state is S.EMPTY


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("commit", [True, False])
def test_a_decided_transaction_is_finished_by_the_next_coordinator(commit: bool) -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0, P1)
    world.partition(P0).write(*producer, 0, "a")
    world.partition(P1).write(*producer, 0, "b")
    world.auto = False
    world.end(producer, commit)
    world.written()
    world.deliver_marker()
    world.markers.clear()
    world.auto = True
    world.crash()
    for partition, value in ((P0, "a"), (P1, "b")):
        data = world.partition(partition)
        assert (data.committed if commit else data.aborted) == [value]
        assert data.last_stable_offset == data.end
    assert world.ids["tx"].state is (S.COMPLETE_COMMIT if commit else S.COMPLETE_ABORT)


def test_an_open_transaction_continues_under_the_next_coordinator() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "a")
    world.crash()
    assert world.error(world.end(producer, True)) is E.NONE
    assert world.partition(P0).committed == ["a"]


def test_a_marker_of_a_deposed_coordinator_is_refused() -> None:
    # Coordinator 0 decides to commit and sends a marker -> it stalls -> coordinator 1 finishes the commit, the producer
    # begins another transaction -> the first marker arrives: it would commit half of the new transaction.
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    world.end(producer, True)
    world.written()
    late = world.markers.pop()
    world.auto = True
    world.crash()
    world.add(producer, P0)
    world.partition(P0).write(*producer, 0, "next")
    world.markers.append(late)
    world.auto = False
    assert world.deliver_marker() is E.TRANSACTION_COORDINATOR_FENCED
    assert world.partition(P0).committed == []


def test_completion_that_could_not_be_written_is_written_by_the_sweep() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    world.end(producer, True)
    world.written()
    world.deliver_marker()
    world.written(E.NOT_COORDINATOR)
    assert world.ids["tx"].state is S.PREPARE_COMMIT
    world.auto = True
    world.step("tx", TimeoutCheck())
    assert world.ids["tx"].state is S.COMPLETE_COMMIT
    assert len(world.partition(P0).markers) == 1


def test_markers_of_another_epoch_complete_nothing() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.auto = False
    world.end(producer, True)
    world.written()
    world.step("tx", MarkersWritten(producer[0], producer[1] + 1))
    assert world.writes == []


def test_illegal_moves_are_refused_by_the_table() -> None:
    for state in S:
        for to in S:
            txn = Transaction("tx", 1, 0, state=state)
            if to in MOVES[state]:
                assert txn.moved_to(to).state is to
            else:
                with pytest.raises(AssertionError, match="cannot move"):
                    txn.moved_to(to)


def test_states_have_their_wire_names() -> None:
    assert S.PREPARE_EPOCH_FENCE.label == "PrepareEpochFence"
    assert S.of_label("CompleteCommit") is S.COMPLETE_COMMIT
    assert S.of_label("Nonsense") is None


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
