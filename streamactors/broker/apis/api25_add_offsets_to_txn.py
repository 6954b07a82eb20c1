"""AddOffsetsToTxn: adds a group's offsets to a producer's transaction.

Versions: 0-4 (2 PRODUCER_FENCED KIP-588, 3 flexible, 4 TRANSACTION_ABORTABLE).   Authorised: WRITE
TRANSACTIONAL_ID, READ GROUP.
Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before 2), CONCURRENT_TRANSACTIONS,
INVALID_REQUEST, INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
Differs from Apache Kafka: creates the offsets topic if it does not exist yet; refuses an empty group id, which Kafka
refuses only at TxnOffsetCommit."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.transaction_requests import for_old_clients, offsets_in_transaction
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.metadata.topic_name import OFFSETS_TOPIC
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import AddPartitions, ErrorAnswer

_KNOWS_FENCED: Final = 2


def handle(request: Request) -> Later:
    node = request.node
    if node.groups.index_of(request.message.group_id) >= 0:
        _add(request)
    else:
        node.auto_creation.create((OFFSETS_TOPIC,), request.answer_with(lambda _: _add(request)))
    return LATER


def _add(request: Request) -> None:
    """Have the coordinator add the group's offsets partition, and answer."""
    message = request.message
    index = request.node.groups.index_of(message.group_id)
    if index < 0:
        raise Refusal(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    @request.answer_with
    def reply(answer: ErrorAnswer) -> Body:
        return {"error_code": for_old_clients(answer.error, request.version, _KNOWS_FENCED)}

    partitions = frozenset((TopicPartition(OFFSETS_TOPIC, index),))
    add = AddPartitions(reply, message.producer_id, message.producer_epoch, partitions)
    request.node.transactions.tell(message.transactional_id, add)


API: Final = Api(key=25, versions=(0, 4), authorise=offsets_in_transaction, handle=handle)
