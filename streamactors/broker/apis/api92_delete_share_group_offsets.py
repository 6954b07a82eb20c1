"""DeleteShareGroupOffsets: forgets the offsets of topics of an empty share group (KIP-932).

Versions: 0.   Authorised: DELETE GROUP; READ each TOPIC.
Errors: UNSUPPORTED_VERSION (share.version is 0), GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (also a group of another kind), NON_EMPTY_GROUP, errors of
the coordinator; by topic: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE, has_share_groups
from streamactors.broker.apis.share_requests import NO_TOPIC_ID
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.share.share_messages import DeleteShareOffsets, OffsetsAnswer, Outcome
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each


def handle(request: Request) -> Body | Later:
    message = request.message
    if not has_share_groups(request):
        return _refuse(request, OFF, OFF_MESSAGE)
    if not request.allowed(Operation.DELETE, ResourceType.GROUP, message.group_id):
        return _refuse(request, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    names = [topic.topic_name for topic in message.topics]
    allowed = [name for name in names if request.allowed(Operation.READ, ResourceType.TOPIC, name)]
    refused = {name: Outcome(ErrorCode.TOPIC_AUTHORIZATION_FAILED) for name in names if name not in allowed}
    reply = request.answer_with(partial(_answer, request, refused))
    request.node.groups.tell(message.group_id, DeleteShareOffsets(message.group_id, tuple(allowed), reply))
    return LATER


def _answer(request: Request, refused: Mapping[str, Outcome], answer: OffsetsAnswer) -> Body:
    if answer.outcome.error:
        return _refuse(request, answer.outcome.error, answer.outcome.message)
    topics = request.node.metadata.image.topics
    responses: list[dict[str, Any]] = []
    for name, outcome in {**answer.topics, **refused}.items():
        assert isinstance(outcome, Outcome)
        responses.append(
            {
                "topic_name": name,
                "topic_id": topics[name].topic_id if name in topics else NO_TOPIC_ID,
                "error_code": outcome.error,
                "error_message": outcome.message,
            }
        )
    return {"error_code": ErrorCode.NONE, "error_message": None, "responses": responses}


def _refuse(_: Request, code: ErrorCode, message: str | None = None) -> Body:
    return {"error_code": code, "error_message": message, "responses": []}


API: Final = Api(key=92, versions=(0, 0), authorise=each, handle=handle, refuse=_refuse)
