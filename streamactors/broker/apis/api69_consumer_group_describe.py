"""ConsumerGroupDescribe: consumer groups (KIP-848) with their epochs, members and assignments.

Versions: 0-1 (1 member type).   Authorised: DESCRIBE each GROUP; a group with a topic that the client may not describe is not shown.
Errors: by group: GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, UNSUPPORTED_VERSION while group.version is 0.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_group
from streamactors.broker.apis.feature_off import groups_enabled, groups_not_supported
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.consumer.consumer_group import ConsumerGroup, ConsumerMember
from streamactors.broker.group.consumer.target import present_assignor
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."
_CLASSIC, _CONSUMER = 0, 1


def handle(request: Request) -> Body | Later:
    if not groups_enabled(request):
        return groups_not_supported(request)
    asked = list(request.message.group_ids)
    allowed = [name for name in asked if request.allowed(Operation.DESCRIBE, ResourceType.GROUP, name)]

    @request.answer_with
    def reply(found: Sequence[tuple[ErrorCode, CoordinatedGroup | None]]) -> Body:
        described = dict(zip(allowed, found, strict=True))
        return {"groups": [_describe(request, name, described.get(name)) for name in asked]}

    request.node.groups.describe_groups(allowed, reply)
    return LATER


def _describe(
    request: Request, group_id: str, found: tuple[ErrorCode, CoordinatedGroup | None] | None
) -> dict[str, Any]:
    if found is None:
        return _failed(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error, group = found
    if error is not ErrorCode.NONE:
        return _failed(group_id, error)
    if not isinstance(group, ConsumerGroup):
        why = f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}."
        return _failed(group_id, ErrorCode.GROUP_ID_NOT_FOUND, why)
    answer = _of_group(request, group)
    if not all(request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, topic) for topic in _topics(answer["members"])):
        return _failed(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)
    operations = on_group(request, group_id) if request.message.include_authorized_operations else NOT_ASKED
    return {**answer, "authorized_operations": operations}


def _of_group(request: Request, group: ConsumerGroup) -> dict[str, Any]:
    default = request.node.config.group_consumer_assignors[0]
    return {
        "group_id": group.group_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_state": group.state.value,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": present_assignor(group, default),
        "members": [_of_member(request, group, group.members[each]) for each in group.member_order()],
    }


def _of_member(request: Request, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    has: dict[uuid.UUID, list[int]] = {}
    for owned in (member.assigned, member.revoking):
        for topic_id, partitions in owned.items():
            has.setdefault(topic_id, []).extend(partitions)
    target = group.targets.get(member.member_id, {})
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "subscribed_topic_regex": member.regex,
        "assignment": _assignment(request, has),
        "target_assignment": _assignment(request, target),
        "member_type": _CONSUMER if member.classic is None else _CLASSIC,
    }


def _assignment(request: Request, partitions: Mapping[uuid.UUID, Iterable[int]]) -> dict[str, Any]:
    topics = request.node.metadata.image.topics_by_id
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": topics[topic_id].name, "partitions": sorted(owned)}
            for topic_id, owned in partitions.items()
            if topic_id in topics
        ]
    }


def _topics(members: Sequence[Mapping[str, Any]]) -> set[str]:
    found: set[str] = set()
    for member in members:
        found.update(member["subscribed_topic_names"])
        for key in ("assignment", "target_assignment"):
            found.update(topic["topic_name"] for topic in member[key]["topic_partitions"])
    return found


def _failed(group_id: str, error: ErrorCode, why: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "error_code": error,
        "error_message": why,
        "authorized_operations": NOT_ASKED,
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"groups": [_failed(group_id, code) for group_id in request.message.group_ids]}


API: Final = Api(key=69, versions=(0, 1), authorise=each, handle=handle, refuse=refuse)
