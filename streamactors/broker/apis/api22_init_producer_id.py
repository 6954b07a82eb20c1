"""InitProducerId: a producer id for an idempotent producer, or the id and epoch of a transactional one.

Versions: 0-6 (2 flexible; 3 the producer's own id and epoch KIP-360; 6 two-phase commit KIP-939). Authorised: WRITE
TRANSACTIONAL_ID where there is one. Errors: INVALID_REQUEST (an empty transactional id, or half an id and epoch),
TRANSACTIONAL_ID_AUTHORIZATION_FAILED (two-phase commit, which is not enabled), UNSUPPORTED_VERSION (a prepared
transaction to be kept), COORDINATOR_NOT_AVAILABLE, those of the coordinator. Differs from Apache Kafka: every principal may write idempotently,
as in Kafka since 2.8 with any WRITE right."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import LATER, Api, ApiError, Body, Later
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import Operation, ResourceType


def authorise(request: Request) -> ErrorCode:
    """WRITE on the transactional id; an idempotent producer needs nothing here, but WRITE on its topics later."""
    name = request.message.transactional_id
    if name is None or request.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
        return ErrorCode.NONE
    return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.transactional_id == "":
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        if message.enable2_pc:
            # What Kafka says as long as transaction.two.phase.commit.enable is false: no transaction may do without a time-out.
            raise ApiError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if message.keep_prepared_txn:
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION)
        transactions = request.node.transactions
        if transactions is None:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        answer: Body | Later = transactions.init_producer_id(request)
        return answer
    request.node.producer_ids.next(lambda producer_id: _answer(request, producer_id))
    return LATER


def _answer(request: Request, producer_id: int | None) -> None:
    if producer_id is None:
        request.answer(_refuse(request, ErrorCode.COORDINATOR_NOT_AVAILABLE))
    else:
        request.answer({"producer_id": producer_id, "producer_epoch": 0})


def _refuse(request: Request, code: ErrorCode) -> Body:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API: Final = Api(key=22, versions=(0, 6), authorise=authorise, handle=handle, refuse=_refuse)
