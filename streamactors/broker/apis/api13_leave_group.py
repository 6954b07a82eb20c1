"""LeaveGroup: removes members from a classic group: one that leaves, or several named by an administrator.

Versions: 0-5 (1 throttle_time_ms, 3 several members KIP-345, 4 flexible, 5 a reason KIP-800).   Authorised: READ
GROUP.
Errors: INVALID_GROUP_ID, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE; by member:
UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID (before version 3 they are the error of the request).   Differs from Apache Kafka:
nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.group_requests import with_group_id
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import LeaveAnswer, LeaveGroup, Leaving
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import read_group

_SEVERAL_MEMBERS: Final = 3


def handle(request: Request) -> Later:
    message = request.message
    if request.version >= _SEVERAL_MEMBERS:
        leaving = tuple(Leaving(member.member_id, member.group_instance_id) for member in message.members)
    else:
        leaving = (Leaving(message.member_id),)
    request.node.groups.to_group(
        message.group_id, LeaveGroup(request.answer_with(lambda answer: _body(request.version, answer)), leaving)
    )
    return LATER


def _body(version: int, answer: LeaveAnswer) -> Body:
    if version >= _SEVERAL_MEMBERS or answer.error is not ErrorCode.NONE:
        members = [
            {"member_id": member.member_id, "group_instance_id": member.instance_id, "error_code": error}
            for member, error in answer.members
        ]
        return {"error_code": answer.error, "members": members}
    ((_, error),) = answer.members
    return {"error_code": error}


API: Final = Api(key=13, versions=(0, 5), authorise=with_group_id(read_group), handle=handle)
