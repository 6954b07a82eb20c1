"""DescribeTransactions: the state of transactional ids.

Versions: 0.   Authorised: DESCRIBE each TRANSACTIONAL_ID, DESCRIBE each TOPIC (others are left out).
Errors: by id: TRANSACTIONAL_ID_NOT_FOUND, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, INVALID_REQUEST,
COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.transaction_requests import partitions_by_topic, transactional_id_error
from streamactors.broker.coordinator.coordinators import gather
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each
from streamactors.broker.transaction.transaction import Transaction


def handle(request: Request) -> Later:
    asked = request.message.transactional_ids

    @request.answer_with
    def reply(found: list[tuple[ErrorCode, Transaction | None]]) -> Body:
        return {
            "transaction_states": [_describe(request, name, *each) for name, each in zip(asked, found, strict=True)]
        }

    gather([partial(_find, request, name) for name in asked], reply)
    return LATER


def _find(request: Request, name: str, then: Callable[[ErrorCode, Transaction | None], object]) -> None:
    error = transactional_id_error(name)
    if not request.allowed(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name):
        error = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if error is not ErrorCode.NONE:
        then(error, None)
    else:
        request.node.transactions.describe(name, then)


def _describe(request: Request, name: str, error: ErrorCode, txn: Transaction | None) -> dict[str, Any]:
    if txn is None:
        return {"transactional_id": name, "error_code": error}
    return {
        "transactional_id": name,
        "error_code": ErrorCode.NONE,
        "transaction_state": txn.state.label,
        "transaction_timeout_ms": txn.timeout_ms,
        "transaction_start_time_ms": txn.started_at_ms,
        "producer_id": txn.producer_id,
        "producer_epoch": txn.producer_epoch,
        "topics": partitions_by_topic(
            where for where in txn.partitions if request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, where.topic)
        ),
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return {
        "transaction_states": [
            {"transactional_id": name, "error_code": code} for name in request.message.transactional_ids
        ]
    }


API: Final = Api(key=65, versions=(0, 0), authorise=each, handle=handle, refuse=refuse)
