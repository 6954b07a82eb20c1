"""AddOffsetsToTxn: makes a group's committed offsets part of a producer's transaction.

Versions: 0-4 (2 PRODUCER_FENCED KIP-588, 3 flexible, 4 TRANSACTION_ABORTABLE).   Authorised: WRITE
TRANSACTIONAL_ID, READ GROUP.
Errors: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED (INVALID_PRODUCER_EPOCH before 2), CONCURRENT_TRANSACTIONS,
INVALID_REQUEST, INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.
Differs from Apache Kafka: a group nobody has asked a coordinator for yet gets its offsets topic created here; an
empty group id is refused, which Kafka finds out at TxnOffsetCommit only."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import LATER, Api, Later
from streamactors.broker.apis.group_requests import group_id_error
from streamactors.broker.apis.transaction_requests import for_old_clients, with_transactional_id
from streamactors.broker.controller.command import AutoCreate
from streamactors.broker.controller.topic_name import OFFSETS_TOPIC
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import read_group, write_transactional_id
from streamactors.broker.transaction.transaction import TopicPartition
from streamactors.broker.transaction.transaction_events import AddPartitions, ErrorAnswer

_KNOWS_FENCED: Final = 2


def authorise(request: Request) -> ErrorCode:
    """WRITE on the transactional id and READ on the group, both of which must be possible names."""
    error = with_transactional_id(write_transactional_id)(request) or read_group(request)
    return error or group_id_error(request.message.group_id)


def handle(request: Request) -> Later:
    node = request.node
    if node.groups.index_of(request.message.group_id) >= 0:
        _add(request)
    else:
        node.controller.submit(AutoCreate((OFFSETS_TOPIC,)), lambda _: _add(request))
    return LATER


def _add(request: Request) -> None:
    message = request.message
    index = request.node.groups.index_of(message.group_id)
    if index < 0:
        request.answer({"error_code": ErrorCode.COORDINATOR_NOT_AVAILABLE})
        return

    def reply(answer: ErrorAnswer) -> None:
        request.answer({"error_code": for_old_clients(answer.error, request.version, _KNOWS_FENCED)})

    partitions = frozenset((TopicPartition(OFFSETS_TOPIC, index),))
    add = AddPartitions(reply, message.producer_id, message.producer_epoch, partitions)
    request.node.transactions.tell(message.transactional_id, add)


API: Final = Api(key=25, versions=(0, 4), authorise=authorise, handle=handle)
