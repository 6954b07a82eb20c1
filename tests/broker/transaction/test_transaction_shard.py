"""A transaction whose record cannot be written: the error is told, and the transaction learns it once it is known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.coordinator.coordinator_log import client_error
from streamactors.broker.errors import ErrorCode
from streamactors.broker.transaction.transaction import Transaction, TransactionState
from streamactors.broker.transaction.transaction_events import Write, Written
from streamactors.broker.transaction.transaction_shard import TransactionShard


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
