"""TxnOffsetCommit: commits a group's offsets with a producer's transaction; they count when it commits.

Versions: 0-4 (2 leader epochs KIP-320, 3 flexible and the member's generation KIP-447, 4 TRANSACTION_ABORTABLE; 5
belongs to transaction.version 2, which is not offered).   Authorised: WRITE TRANSACTIONAL_ID, READ GROUP, READ
each TOPIC.
Errors: by partition: UNKNOWN_TOPIC_OR_PARTITION, OFFSET_METADATA_TOO_LARGE, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID,
FENCED_INSTANCE_ID, INVALID_PRODUCER_EPOCH, INVALID_PRODUCER_ID_MAPPING, CONCURRENT_TRANSACTIONS,
TRANSACTION_ABORTABLE (INVALID_TXN_STATE before 4), INVALID_GROUP_ID, INVALID_REQUEST, COORDINATOR_LOAD_IN_PROGRESS
(COORDINATOR_NOT_AVAILABLE before 2), NOT_COORDINATOR.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.apis.api08_offset_commit import new_offsets
from streamactors.broker.apis.group_requests import asked_partitions, by_topic, group_id_error, one_error
from streamactors.broker.apis.transaction_requests import with_transactional_id
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_messages import CommitOffsets
from streamactors.broker.request import Request
from streamactors.broker.security import read_group, write_transactional_id

_KNOWS_LOADING: Final = 2
_KNOWS_ABORTABLE: Final = 4


def authorise(request: Request) -> ErrorCode:
    """WRITE on the transactional id and READ on the group, both of which must be possible names."""
    error = with_transactional_id(write_transactional_id)(request) or read_group(request)
    return error or group_id_error(request.message.group_id)


def handle(request: Request) -> Body | Later:
    message = request.message
    asked = asked_partitions(request, message.topics)
    wanted = [each for each in asked if each.error is ErrorCode.NONE]
    if not wanted:
        return {"topics": by_topic(asked, [each.error for each in asked])}

    def reply(errors: Sequence[ErrorCode]) -> None:
        done = (_of_version(error, request.version) for error in errors)
        request.answer({"topics": by_topic(asked, [each.error or next(done) for each in asked])})

    commit = CommitOffsets(
        reply,
        message.group_id,
        message.member_id,
        message.group_instance_id,
        message.generation_id,
        new_offsets(wanted),
        producer_id=message.producer_id,
        producer_epoch=message.producer_epoch,
    )
    if message.producer_id < 0:
        reply([ErrorCode.INVALID_PRODUCER_ID_MAPPING] * len(wanted))
    else:
        request.node.groups.commit_in_transaction(message.transactional_id, commit)
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


API: Final = Api(key=28, versions=(0, 4), authorise=authorise, handle=handle, refuse=refuse)
