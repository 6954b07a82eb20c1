"""ConsumerGroupHeartbeat: a member joins, stays in or leaves a consumer group (KIP-848), and gets its partitions.

Versions: 0-1 (1 regular expressions, and the member makes its id).   Authorised: READ GROUP, DESCRIBE each TOPIC that is subscribed to by name; a regular
expression matches only topics that the member may describe.
Errors: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
UNSUPPORTED_ASSIGNOR, INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION while group.version is 0.
Differs from Apache Kafka: RE2 words the errors of some regular expressions differently."""

from __future__ import annotations

import uuid
from typing import Any, Final

from streamactors.broker.apis.feature_off import groups_enabled, not_supported
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_events import MemberAnswer, MemberHeartbeat
from streamactors.broker.group.consumer.consumer_group import LEFT, STATIC_LEFT, Epochs
from streamactors.broker.group.consumer.consumer_messages import ToConsumerGroup
from streamactors.broker.group.consumer.consumer_state import JOIN
from streamactors.broker.protocol.record_schema import too_long
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_MAKES_ITS_ID: Final = 1


def handle(request: Request) -> Body | Later:
    if not groups_enabled(request):
        return not_supported(request)
    message = request.message
    if not request.allowed(Operation.READ, ResourceType.GROUP, message.group_id):
        return _error(ErrorCode.GROUP_AUTHORIZATION_FAILED)

    def may_describe(topic: str) -> bool:
        return request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic)

    names = message.subscribed_topic_names
    if not all(may_describe(name) for name in names or ()):
        return _error(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    why = _invalid(message, request.version)
    if why is not None:
        return _error(ErrorCode.INVALID_REQUEST, why)
    assignors = request.node.config.group_consumer_assignors
    if message.server_assignor is not None and message.server_assignor not in assignors:
        supported = ", ".join(assignors)
        text = f"ServerAssignor {message.server_assignor} is not supported. Supported assignors: {supported}."
        return _error(ErrorCode.UNSUPPORTED_ASSIGNOR, text)
    owned = message.topic_partitions
    beat = MemberHeartbeat(
        member_id=message.member_id or str(uuid.uuid4()),
        epoch=message.member_epoch,
        instance_id=message.instance_id,
        rack_id=message.rack_id,
        rebalance_timeout_ms=message.rebalance_timeout_ms,
        topics=None if names is None else tuple(names),
        regex=message.subscribed_topic_regex if request.version >= _MAKES_ITS_ID else None,
        assignor=message.server_assignor,
        owned=None if owned is None else [(each.topic_id, tuple(each.partitions)) for each in owned],
        client_id=request.header.client_id or "",
        client_host=f"/{request.connection.host}",
    )
    reply = request.answer_with(_body)
    request.node.groups.tell(message.group_id, ToConsumerGroup(reply, message.group_id, beat, may_describe))
    return LATER


def _invalid(message: Any, version: int) -> str | None:
    """Return what is wrong with a request, as Apache Kafka says it; None if it is well formed."""
    epoch = message.member_epoch
    if (version >= _MAKES_ITS_ID or epoch > 0 or epoch == LEFT) and not message.member_id.strip():
        return "MemberId can't be empty."
    if not message.group_id.strip():
        return "GroupId can't be empty."
    for name, value in (("InstanceId", message.instance_id), ("RackId", message.rack_id)):
        if value is not None and not value.strip():
            return f"{name} can't be empty."
    if epoch == JOIN:
        if message.rebalance_timeout_ms == -1:
            return "RebalanceTimeoutMs must be provided in first request."
        if message.topic_partitions is None or message.topic_partitions:
            return "TopicPartitions must be empty when (re-)joining."
        if message.subscribed_topic_names is None and getattr(message, "subscribed_topic_regex", None) is None:
            return "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
    elif epoch == STATIC_LEFT and message.instance_id is None:
        return "InstanceId can't be null."
    elif epoch < STATIC_LEFT:
        return "MemberEpoch is invalid."
    return _too_long(message)


def _too_long(message: Any) -> str | None:
    """Return which string cannot be stored in the records of the group."""
    strings = {
        "GroupId": message.group_id,
        "MemberId": message.member_id,
        "InstanceId": message.instance_id,
        "RackId": message.rack_id,
        "SubscribedTopicRegex": getattr(message, "subscribed_topic_regex", None),
    }
    return next((f"{name} is too long to be stored." for name, value in strings.items() if too_long(value)), None)


def _body(error: ErrorCode, why: str | None, answer: MemberAnswer | None) -> Body:
    if answer is None:
        return _error(error, why)
    return {
        "error_code": error,
        "member_id": answer.member_id,
        "member_epoch": answer.epoch,
        "heartbeat_interval_ms": answer.heartbeat_interval_ms,
        "assignment": None if answer.assigned is None else _assignment(answer.assigned),
    }


def _assignment(assigned: Epochs) -> dict[str, Any]:
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "partitions": sorted(partitions)} for topic_id, partitions in assigned.items()
        ]
    }


def _error(code: ErrorCode, why: str | None = None) -> Body:
    return {"error_code": code, "error_message": why}


def refuse(_request: Request, code: ErrorCode) -> Body:
    return _error(code)


API: Final = Api(key=68, versions=(0, 1), authorise=each, handle=handle, refuse=refuse)
