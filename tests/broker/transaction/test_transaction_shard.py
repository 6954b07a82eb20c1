"""Transactional ids of a partition: a record that cannot be written, and what a new coordinator has read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.coordinator.coordinator_log import client_error
from streamactors.broker.coordinator.coordinator_messages import Confirmed
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import TopicPartition, Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import AddPartitions, Write, Written
from streamactors.broker.transaction.transaction_messages import ToTransaction
from streamactors.broker.transaction.transaction_shard import TransactionRules, TransactionShard
from streamactors.clock import VirtualClock


@pytest.mark.parametrize("error", [ErrorCode.NONE, ErrorCode.NOT_ENOUGH_REPLICAS])
@pytest.mark.parametrize("known", [True, False])
def test_a_write_that_failed_is_told_and_goes_to_the_transaction_if_it_is_still_there(
    error: ErrorCode, known: bool, caplog: pytest.LogCaptureFixture
) -> None:
    written: list[Any] = []
    steps: list[Any] = []
    log = SimpleNamespace(write=lambda records, then, refuse: written.append((records, then, refuse)))
    shard: Any = SimpleNamespace(
        name="__transaction_state-3",
        log=log,
        transactions={"pay": "it"} if known else {},
        _version=lambda: 0,
        _step=lambda name, event: steps.append((name, event.error)),
    )
    transaction = Transaction("pay", 7, 2, state=TransactionState.ONGOING)
    TransactionShard._write(shard, "pay", Write(transaction, Written(transaction, None)))
    ((_, then, refuse),) = written
    then(error, 5)
    assert steps == ([("pay", client_error(error))] if known else [])
    told = [f"transactional id pay of __transaction_state-3: writing {transaction.state.label} failed: {error.name}"]
    assert caplog.messages == (told if error else [])
    refuse(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)  # nobody waits for an answer


class _Log:
    """A log whose writes the test acknowledges."""

    def __init__(self) -> None:
        self.writes: list[Any] = []

    def write(self, records: Any, then: Any, refuse: Any) -> None:
        self.writes.append(then)


def test_a_partition_that_only_this_coordinator_may_know_is_written_again_before_the_answer() -> None:
    # The coordinator died before it answered, and one follower had the record. It answered the repeat from what only it had read, and died, too. The
    # third broker committed the transaction without the partition, whose records stayed open.
    log: Any = _Log()
    clock: Any = VirtualClock()
    nothing: Any = None
    shard = TransactionShard("__transaction_state-3", log, clock, TransactionRules(), nothing, nothing, nothing)
    where = TopicPartition("orders", 0)
    shard.take_over({"pay": Transaction("pay", 7, 2, state=TransactionState.ONGOING, partitions=frozenset({where}))})
    answers: list[ErrorCode] = []

    def add() -> None:
        event = AddPartitions(lambda answer: answers.append(answer.error), 7, 2, frozenset({where}))
        shard.serve(ToTransaction("pay", event))

    add()
    assert answers == []
    (written,) = log.writes
    add()
    assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS]
    written(ErrorCode.NONE, 5)
    assert answers == [ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NONE]
    shard.confirmed(Confirmed())
    add()
    assert answers[2:] == [ErrorCode.NONE]
    assert len(log.writes) == 1
