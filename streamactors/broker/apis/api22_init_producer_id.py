"""InitProducerId: a producer id for an idempotent producer, or the id and epoch of a transactional one.

Versions: 0-6 (2 flexible; 3 the producer's own id and epoch KIP-360; 6 two-phase commit KIP-939). Authorised: WRITE
TRANSACTIONAL_ID if there is one; else IDEMPOTENT_WRITE CLUSTER, or WRITE of any TOPIC (KIP-679). Errors: INVALID_REQUEST (an empty transactional id, or an id without an epoch),
TRANSACTIONAL_ID_AUTHORIZATION_FAILED (two-phase commit, which is not enabled), UNSUPPORTED_VERSION (a prepared
transaction to be kept), COORDINATOR_NOT_AVAILABLE, CLUSTER_AUTHORIZATION_FAILED, errors of the coordinator. Differs from Apache
Kafka: nothing."""

from __future__ import annotations

from functools import partial
from typing import Final

from streamactors.broker.apis.transaction_requests import for_old_clients
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType
from streamactors.broker.transaction.transaction_events import InitAnswer, InitProducerId

_KNOWS_FENCED: Final = 4  # the first version whose clients know PRODUCER_FENCED


def authorise(request: Request) -> ErrorCode:
    """Require WRITE on the transactional id, or for an idempotent producer a right to write at all."""
    name = request.message.transactional_id
    if name is not None:
        if request.allowed(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, name):
            return ErrorCode.NONE
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if request.allowed(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER, CLUSTER_NAME):
        return ErrorCode.NONE
    if request.allowed_on_any(Operation.WRITE, ResourceType.TOPIC):
        return ErrorCode.NONE
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.transactional_id == "":
        raise Refusal(ErrorCode.INVALID_REQUEST)
    if (message.producer_id == -1) != (message.producer_epoch == -1):
        raise Refusal(ErrorCode.INVALID_REQUEST)
    if message.transactional_id is not None:
        if message.enable2_pc:
            # As in Kafka without transaction.two.phase.commit.enable: every transaction must have a timeout.
            raise Refusal(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        if message.keep_prepared_txn:
            raise Refusal(ErrorCode.UNSUPPORTED_VERSION)
        if too_long(message.transactional_id):
            raise Refusal(ErrorCode.INVALID_REQUEST)
        claim = (message.producer_id, message.producer_epoch)
        reply = request.answer_with(partial(_transactional, request))
        init = InitProducerId(reply, message.transaction_timeout_ms, *claim)
        request.node.transactions.tell(message.transactional_id, init)
        return LATER
    request.node.producer_ids.next(request.answer_with(_idempotent))
    return LATER


def _transactional(request: Request, answer: InitAnswer) -> Body:
    error = for_old_clients(answer.error, request.version, _KNOWS_FENCED)
    return {"error_code": error, "producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch}


def _idempotent(producer_id: int | None) -> Body:
    if producer_id is None:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    return {"producer_id": producer_id, "producer_epoch": 0}


def _refuse(request: Request, code: ErrorCode) -> Body:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


API: Final = Api(key=22, versions=(0, 6), authorise=authorise, handle=handle, refuse=_refuse)
