"""AllocateProducerIds: a broker reserves a block of producer ids (KIP-730).

Versions: 0.   Authorised: CLUSTER_ACTION.   Errors: STALE_BROKER_EPOCH.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.command import AllocateProducerIds, Outcome, ProducerIdBlock
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Later:
    message = request.message

    @request.answer_with
    def reply(answer: ProducerIdBlock | Outcome) -> Body:
        if isinstance(answer, Outcome):
            return _body(answer.code, 0, 0)
        return _body(ErrorCode.NONE, answer.first, answer.size)

    request.node.controller.submit(AllocateProducerIds((message.broker_id, message.broker_epoch)), reply)
    return LATER


def _body(error: ErrorCode, first: int, size: int) -> Body:
    return {"throttle_time_ms": 0, "error_code": error, "producer_id_start": first, "producer_id_len": size}


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body(code, 0, 0)


API: Final = Api(key=67, versions=(0, 0), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
