"""SyncGroup: the leader sends the assignments of all members, and every member gets its own.

Versions: 0-5 (1 throttle_time_ms, 3 group.instance.id KIP-345, 4 flexible, 5 protocol type and name KIP-559,
required from there on).   Authorised: READ GROUP.   Errors: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION,
REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL, INVALID_GROUP_ID,
COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, UNKNOWN_SERVER_ERROR (the assignment is
too large for the log).
Differs from Apache Kafka: a leader's second SyncGroup of one generation cannot change the assignment of the first."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.group_requests import with_group_id
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import SyncAnswer, SyncGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import read_group

_NAMES_PROTOCOL: Final = 5


def handle(request: Request) -> Body | Later:
    message = request.message
    if request.version >= _NAMES_PROTOCOL and (message.protocol_type is None or message.protocol_name is None):
        return {"error_code": ErrorCode.INCONSISTENT_GROUP_PROTOCOL}
    request.node.groups.to_group(
        message.group_id,
        SyncGroup(
            request.answer_with(_body),
            message.member_id,
            message.group_instance_id,
            message.generation_id,
            message.protocol_type,
            message.protocol_name,
            tuple((given.member_id, bytes(given.assignment)) for given in message.assignments),
        ),
    )
    return LATER


def _body(answer: SyncAnswer) -> Body:
    return {
        "error_code": answer.error,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol,
        "assignment": answer.assignment,
    }


API: Final = Api(key=14, versions=(0, 5), authorise=with_group_id(read_group), handle=handle)
