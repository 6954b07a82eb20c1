"""Whether a batch is part of an open transaction: who is asked, and who is not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from streamactors.broker.apis.transaction_verification import check_transactional
from streamactors.broker.errors import ErrorCode, Refusal


def check(*, is_leader: bool, error: ErrorCode) -> None:
    """Check a batch on a broker that coordinates no transaction, or says `error` of this one."""
    transactions = SimpleNamespace(verify_now=lambda *asked: error)
    config = SimpleNamespace(transaction_partition_verification_enable=True)
    log = SimpleNamespace(ongoing_transaction=lambda *producer: None, check_producer_epoch=lambda *producer: None)
    partition: Any = SimpleNamespace(is_leader=is_leader, topic="t", index=0, log=log)
    node: Any = SimpleNamespace(config=config, transactions=transactions)
    check_transactional(node, "id", partition, memoryview(bytes(80)), 9)


def test_a_broker_that_does_not_lead_leaves_the_answer_to_the_append() -> None:
    # The leader is killed, and leads no longer when it is back -> the client still sends to it -> it answered NOT_ENOUGH_REPLICAS, because it is not
    # the coordinator -> the client asked again and again, and never for the leader, until its message timed out.
    check(is_leader=False, error=ErrorCode.NOT_COORDINATOR)
    with pytest.raises(Refusal) as refused:
        check(is_leader=True, error=ErrorCode.NOT_COORDINATOR)
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    check(is_leader=True, error=ErrorCode.NONE)
