"""ListTransactions: the transactional ids that this broker coordinates.

Versions: 0-1 (1 by duration KIP-994).   Authorised: DESCRIBE each TRANSACTIONAL_ID (others are left out).
Errors: COORDINATOR_LOAD_IN_PROGRESS.
Differs from Apache Kafka: version 2, which filters by a regular expression, is not offered: an expression from a
request could block Python's matcher without end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, anyone
from streamactors.broker.transaction.transaction import Transaction, TransactionState


def handle(request: Request) -> Later:
    message = request.message
    wanted = {name: TransactionState.of_label(name) for name in message.state_filters}
    producer_ids = set(message.producer_id_filters)
    now_ms = request.node.clock.wall_ms()

    def matches(txn: Transaction) -> bool:
        if txn.state is TransactionState.DEAD:
            return False
        if producer_ids and txn.producer_id not in producer_ids:
            return False
        if wanted and txn.state not in wanted.values():
            return False
        if message.duration_filter >= 0 and now_ms - txn.started_at_ms <= message.duration_filter:
            return False
        return request.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, txn.transactional_id)

    @request.answer_with
    def reply(error: ErrorCode, transactions: Sequence[Transaction]) -> Body:
        return {
            "error_code": error,
            "unknown_state_filters": [name for name, state in wanted.items() if state is None],
            "transaction_states": [
                {
                    "transactional_id": txn.transactional_id,
                    "producer_id": txn.producer_id,
                    "transaction_state": txn.state.label,
                }
                for txn in sorted(transactions, key=lambda txn: txn.transactional_id)
                if matches(txn)
            ],
        }

    request.node.transactions.list_transactions(reply)
    return LATER


API: Final = Api(key=66, versions=(0, 1), authorise=anyone, handle=handle)
