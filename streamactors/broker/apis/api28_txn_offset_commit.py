"""TxnOffsetCommit: commits a group's offsets in a producer's transaction; they are valid when the transaction commits.

Versions: 0-6 (2 leader epochs KIP-320, 3 flexible and the member's generation KIP-447, 4 TRANSACTION_ABORTABLE, 5 adds the group's
offsets to the transaction: transaction.version 2, KIP-890; 6 topic ids).   Authorised: WRITE TRANSACTIONAL_ID, READ GROUP, READ
each TOPIC.
Errors: by partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, OFFSET_METADATA_TOO_LARGE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
TRANSACTION_ABORTABLE (INVALID_TXN_STATE before 4), INVALID_GROUP_ID, INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS
(COORDINATOR_NOT_AVAILABLE before 2), NOT_COORDINATOR.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.apis.api08_offset_commit import new_offsets
from streamactors.broker.apis.group_requests import asked_partitions, by_topic, one_error
from streamactors.broker.apis.transaction_requests import offsets_in_transaction
from streamactors.broker.apis.transaction_verification import check_offset_commit
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request

_KNOWS_LOADING: Final = 2
_KNOWS_ABORTABLE: Final = 4
_ADDS: Final = 5


def handle(request: Request) -> Body | Later:
    message = request.message
    asked = asked_partitions(request, message.topics)
    wanted = [each for each in asked if each.error is ErrorCode.NONE]
    if not wanted:
        return {"topics": by_topic(asked)}

    @request.answer_with
    def reply(errors: Sequence[ErrorCode]) -> Body:
        return {"topics": by_topic(asked, [_of_version(error, request.version) for error in errors])}

    commit = CommitOffsets(
        reply,
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        new_offsets(wanted),
        version=request.version,
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
    )

    def verified(error: ErrorCode, commit: CommitOffsets) -> None:
        if error is ErrorCode.NONE:
            request.node.groups.tell(commit.group_id, commit)
        else:
            reply([error] * len(wanted))

    adds = request.version >= _ADDS
    check_offset_commit(request.node, message.transactional_id, commit, verified, adds=adds)
    return LATER


def _of_version(error: ErrorCode, version: int) -> ErrorCode:
    if error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and version < _KNOWS_LOADING:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if error is ErrorCode.TRANSACTION_ABORTABLE and version < _KNOWS_ABORTABLE:
        return ErrorCode.INVALID_TXN_STATE
    if error is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return error


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"topics": one_error(request.message.topics, code)}


API: Final = Api(key=28, versions=(0, 6), authorise=offsets_in_transaction, handle=handle, refuse=refuse, alone=True)
