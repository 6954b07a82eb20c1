"""ShareGroupDescribe: share groups with their members and assignments (KIP-932).

Versions: 1.   Authorised: DESCRIBE each GROUP; a group whose topics the client may not describe is refused.
Errors: by group: UNSUPPORTED_VERSION (share.version is 0), GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (also for a
group of another kind), errors of the coordinator.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_group
from streamactors.broker.apis.feature_off import groups_not_supported, has_share_groups
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.group.share.share_group import ASSIGNOR, ShareGroup, ShareMember
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_HIDDEN: Final = "The group has described topic(s) that the client is not authorized to describe."


def handle(request: Request) -> Body | Later:
    if not has_share_groups(request):
        return groups_not_supported(request)
    asked = request.message.group_ids
    allowed = [name for name in asked if request.allowed(Operation.DESCRIBE, ResourceType.GROUP, name)]

    @request.answer_with
    def reply(found: Sequence[tuple[ErrorCode, CoordinatedGroup | None]]) -> Body:
        described = dict(zip(allowed, found, strict=True))
        return {"groups": [_describe(request, name, described.get(name)) for name in asked]}

    request.node.groups.describe_groups(allowed, reply)
    return LATER


def _refused(group_id: str, error: ErrorCode, message: str | None = None) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "error_code": error,
        "error_message": message,
        "group_state": "",
        "authorized_operations": NOT_ASKED,
    }


def _describe(
    request: Request, group_id: str, found: tuple[ErrorCode, CoordinatedGroup | None] | None
) -> dict[str, Any]:
    if found is None:
        return _refused(group_id, ErrorCode.GROUP_AUTHORIZATION_FAILED)
    error, group = found
    if error is not ErrorCode.NONE:
        return _refused(group_id, error)
    if not isinstance(group, ShareGroup):
        why = f"Group {group_id} {'not found' if group is None else 'is not a share group'}."
        return _refused(group_id, ErrorCode.GROUP_ID_NOT_FOUND, why)
    topics = group.subscribed_topics | {topic.name for topic in group.initialized.values()}
    if not all(request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name) for name in topics):
        return _refused(group_id, ErrorCode.TOPIC_AUTHORIZATION_FAILED, _HIDDEN)
    return {
        "group_id": group_id,
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_state": group.state_name,
        "group_epoch": group.epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(request, member) for member in group.members.values()],
        "authorized_operations": on_group(request, group_id)
        if request.message.include_authorized_operations
        else NOT_ASKED,
    }


def _member(request: Request, member: ShareMember) -> dict[str, Any]:
    topics = request.node.metadata.image.topics_by_id
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.topics),
        "assignment": {
            "topic_partitions": [
                {"topic_id": topic_id, "topic_name": topics[topic_id].name, "partitions": sorted(partitions)}
                for topic_id, partitions in member.assigned.items()
                if topic_id in topics
            ]
        },
    }


def _refuse(request: Request, code: ErrorCode) -> Body:
    return {"groups": [_refused(name, code) for name in request.message.group_ids]}


API: Final = Api(key=77, versions=(1, 1), authorise=each, handle=handle, refuse=_refuse)
