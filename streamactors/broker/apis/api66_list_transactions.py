"""ListTransactions: the transactional ids that this broker coordinates.

Versions: 0-2 (1 by duration KIP-994, 2 by an RE2 pattern of the whole id KIP-1152).   Authorised: DESCRIBE each TRANSACTIONAL_ID (others are left out).
Errors: COORDINATOR_LOAD_IN_PROGRESS, INVALID_REGULAR_EXPRESSION.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.re2_patterns import whole_match
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, anyone
from streamactors.broker.transaction.transaction import Transaction, TransactionState


def handle(request: Request) -> Body | Later:
    message = request.message
    try:
        fits = whole_match(message.transactional_id_pattern) if message.transactional_id_pattern else None
    except Refusal as refusal:
        return {"error_code": refusal.code}
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
        if fits is not None and not fits(txn.transactional_id):
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


API: Final = Api(key=66, versions=(0, 2), authorise=anyone, handle=handle)
