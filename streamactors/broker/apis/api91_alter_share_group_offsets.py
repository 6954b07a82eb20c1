"""AlterShareGroupOffsets: sets the start offsets of an empty share group (KIP-932).

Versions: 0.   Authorised: READ GROUP; READ each TOPIC.
Errors: UNSUPPORTED_VERSION (share.version is 0), GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (a group of another kind), NON_EMPTY_GROUP, errors of the
coordinator; by partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, errors of the share coordinator.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE, has_share_groups
from streamactors.broker.apis.share_requests import NO_TOPIC_ID
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.share.share_messages import AlterShareOffsets, OffsetsAnswer, Outcome
from streamactors.broker.group.share.share_offsets import UNKNOWN_TOPIC
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each


def handle(request: Request) -> Body | Later:
    message = request.message
    if not has_share_groups(request):
        return _refuse(request, OFF, OFF_MESSAGE)
    if not request.allowed(Operation.READ, ResourceType.GROUP, message.group_id):
        return _refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not message.group_id or too_long(message.group_id):
        return _refuse(request, ErrorCode.INVALID_GROUP_ID)
    refused: dict[str, Outcome] = {}
    wanted: dict[str, dict[int, int]] = {}
    for topic in message.topics:
        name = topic.topic_name
        if not request.allowed(Operation.READ, ResourceType.TOPIC, name):
            refused[name] = Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        elif name not in request.node.metadata.image.topics:
            refused[name] = UNKNOWN_TOPIC
        else:
            wanted[name] = {one.partition_index: one.start_offset for one in topic.partitions}
    reply = request.answer_with(partial(_answer, request, refused))
    request.node.groups.tell(message.group_id, AlterShareOffsets(message.group_id, wanted, reply))
    return LATER


def _answer(request: Request, refused: Mapping[str, Outcome], answer: OffsetsAnswer) -> Body:
    if answer.outcome.error:
        return _refuse(request, answer.outcome.error, answer.outcome.message)
    topics = request.node.metadata.image.topics
    responses = []
    for topic in request.message.topics:
        name = topic.topic_name
        found = refused.get(name) or answer.topics.get(name, UNKNOWN_TOPIC)
        responses.append(
            {
                "topic_name": name,
                "topic_id": topics[name].topic_id if name in topics else NO_TOPIC_ID,
                "partitions": [_partition(one.partition_index, found) for one in topic.partitions],
            }
        )
    return {"error_code": ErrorCode.NONE, "error_message": None, "responses": responses}


def _partition(index: int, found: Outcome | Mapping[int, Outcome]) -> dict[str, Any]:
    outcome = found if isinstance(found, Outcome) else found[index]
    return {"partition_index": index, "error_code": outcome.error, "error_message": outcome.message}


def _refuse(_: Request, code: ErrorCode, message: str | None = None) -> Body:
    return {"error_code": code, "error_message": message, "responses": []}


API: Final = Api(key=91, versions=(0, 0), authorise=each, handle=handle, refuse=_refuse)
