"""ShareGroupHeartbeat: a member joins a share group, stays in it or leaves it, and gets its partitions (KIP-932).

Versions: 1.   Authorised: READ GROUP; DESCRIBE of each TOPIC that it subscribes to.
Errors: UNSUPPORTED_VERSION (share.version is 0), INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (also for
a group of another kind), GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, errors of the coordinator.
Differs from Apache Kafka: which member gets which partition, where the counts leave a choice."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE, has_share_groups
from streamactors.broker.apis.share_requests import LONGEST_MEMBER_ID
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.share.share_messages import BeatAnswer, ShareHeartbeat
from streamactors.broker.group.share.share_rules import Beat
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each


def handle(request: Request) -> Body | Later:
    message = request.message
    refusal = _refusal(request)
    if refusal is not None:
        return _body(refusal)
    topics = message.subscribed_topic_names
    beat = Beat(
        message.member_id,
        message.member_epoch,
        message.rack_id,
        None if topics is None else tuple(dict.fromkeys(topics)),
        request.header.client_id or "",
        f"/{request.connection.host}",
    )
    reply = request.answer_with(_body)
    request.node.groups.tell(message.group_id, ShareHeartbeat(message.group_id, beat, reply))
    return LATER


def _refusal(request: Request) -> BeatAnswer | None:
    message = request.message
    if not has_share_groups(request):
        return BeatAnswer(OFF, OFF_MESSAGE)
    if not request.allowed(Operation.READ, ResourceType.GROUP, message.group_id):
        return BeatAnswer(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if not 0 < len(message.member_id) <= LONGEST_MEMBER_ID:
        return _invalid("Invalid member id in the request.")
    names = message.subscribed_topic_names or ()
    if not all(request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in names):
        return BeatAnswer(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if not message.group_id:
        return _invalid("GroupId can't be empty.")
    if message.rack_id == "":
        return _invalid("RackId can't be empty.")
    if message.member_epoch == 0 and not names:
        return _invalid("SubscribedTopicNames must be set in first request.")
    if message.member_epoch < -1:
        return _invalid("MemberEpoch is invalid.")
    if any(too_long(text) for text in (message.group_id, message.rack_id, *names)):
        return _invalid("A name is too long.")
    return None


def _invalid(message: str) -> BeatAnswer:
    return BeatAnswer(ErrorCode.INVALID_REQUEST, message)


def _body(answer: BeatAnswer) -> Body:
    assignment: dict[str, Any] | None = None
    if answer.assignment is not None:
        partitions = [
            {"topic_id": topic_id, "partitions": sorted(found)} for topic_id, found in answer.assignment.items()
        ]
        assignment = {"topic_partitions": partitions}
    return {
        "error_code": answer.error,
        "error_message": answer.message,
        "member_id": answer.member_id or None,
        "member_epoch": answer.epoch,
        "heartbeat_interval_ms": answer.heartbeat_ms,
        "assignment": assignment,
    }


def _refuse(_: Request, code: ErrorCode) -> Body:
    return _body(BeatAnswer(code))


API: Final = Api(key=76, versions=(1, 1), authorise=each, handle=handle, refuse=_refuse)
