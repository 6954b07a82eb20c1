"""DescribeGroups: state, assignor and members of classic groups.

Versions: 0-6 (1 throttle_time_ms, 3 authorised operations KIP-430, 4 group.instance.id KIP-345, 5 flexible, 6
GROUP_ID_NOT_FOUND with a message instead of a dead group KIP-1043, also for a group of
another kind).   Authorised: DESCRIBE each GROUP.
Errors: by group: GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND (v6+), COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_group
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_group import Group, GroupState
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_NAMES_MISSING: Final = 6


def handle(request: Request) -> Later:
    asked = request.message.groups
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
        return {"group_id": group_id, "error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    error, group = found
    if error is not ErrorCode.NONE:
        return {"group_id": group_id, "error_code": error}
    if not isinstance(group, Group):
        answer: dict[str, Any] = {"group_id": group_id, "group_state": GroupState.DEAD.value}
        if request.version >= _NAMES_MISSING:
            why = f"Group {group_id} {'not found' if group is None else 'is not a classic group'}."
            answer |= {"error_code": ErrorCode.GROUP_ID_NOT_FOUND, "error_message": why}
            return answer
    else:
        answer = _of_group(group)
    if request.message.include_authorized_operations:
        answer["authorized_operations"] = on_group(request, group_id)
    else:
        answer["authorized_operations"] = NOT_ASKED
    return answer


def _of_group(group: Group) -> dict[str, Any]:
    # Subscriptions are complete only in a stable group. During a rebalance the members keep their old assignments.
    stable = group.state is GroupState.STABLE
    return {
        "group_id": group.group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": (group.protocol or "") if stable else "",
        "members": [
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata_for(group.protocol) if stable else b"",
                "member_assignment": member.assignment,
            }
            for member in group.members.values()
        ],
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"groups": [{"group_id": name, "error_code": code} for name in request.message.groups]}


API: Final = Api(key=15, versions=(0, 6), authorise=each, handle=handle, refuse=refuse)
