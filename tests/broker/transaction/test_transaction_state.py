"""Kafka's transaction protocol, told as sentences over the pure state machine."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import MOVES, Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import ExpiryCheck, MarkersWritten, TimeoutCheck, Written
from streamactors.broker.transaction.transaction_state import step
from tests.broker.transaction.transaction_world import P0, P1, World

E = ErrorCode
S = TransactionState


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
    assert world.error(world.end(producer, False)) is E.CONCURRENT_TRANSACTIONS
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


@pytest.mark.parametrize("commit", [True, False])
def test_ending_again_the_same_way_is_answered_again(commit: bool) -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    world.end(producer, commit)
    assert world.error(world.end(producer, commit)) is E.NONE
    assert world.error(world.end(producer, not commit)) is E.INVALID_TXN_STATE
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


def test_a_partition_outside_the_transaction_is_noticed() -> None:
    world = World()
    producer = world.producer()
    world.add(producer, P0)
    assert world.verify(producer, P0, P1) == {P0: E.NONE, P1: E.TRANSACTION_ABORTABLE}


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


@pytest.mark.parametrize("error", [E.NONE, E.NOT_COORDINATOR])
def test_the_report_of_a_write_that_is_no_longer_pending_changes_nothing(error: ErrorCode) -> None:
    world = World()
    world.producer()
    txn = world.ids["tx"]
    late = Written(replace(txn, state=S.DEAD), None, fences=True, error=error)
    assert step(txn, late, 0) == (txn, [])
