"""EndTxn: commits or aborts a producer's transaction; answered when the decision is in the log.

Versions: 0-5 (2 PRODUCER_FENCED KIP-588, 3 flexible, 4 TRANSACTION_ABORTABLE; 5 the producer's next id and epoch: transaction.version 2,
KIP-890).
Authorised: WRITE TRANSACTIONAL_ID.   Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (INVALID_PRODUCER_EPOCH
before 2), CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.transaction_requests import for_old_clients, with_transactional_id
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import write_transactional_id
from streamactors.broker.transaction.transaction import BUMPS_EPOCH
from streamactors.broker.transaction.transaction_events import EndAnswer, EndTransaction

_KNOWS_FENCED: Final = 2
_BUMPS_EPOCH: Final = 5


def handle(request: Request) -> Later:
    message = request.message

    bumps = request.version >= _BUMPS_EPOCH

    @request.answer_with
    def reply(answer: EndAnswer) -> Body:
        error = for_old_clients(answer.error, request.version, _KNOWS_FENCED)
        producer = {"producer_id": answer.producer_id, "producer_epoch": answer.producer_epoch} if bumps else {}
        return {"error_code": error, **producer}

    version = BUMPS_EPOCH if bumps else 0
    end = EndTransaction(reply, message.producer_id, message.producer_epoch, message.committed, version)
    request.node.transactions.tell(message.transactional_id, end)
    return LATER


API: Final = Api(key=26, versions=(0, 5), authorise=with_transactional_id(write_transactional_id), handle=handle)
