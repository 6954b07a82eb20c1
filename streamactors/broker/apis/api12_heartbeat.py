"""Heartbeat: keeps a classic-group member alive, or tells it to rejoin.

Versions: 0-4 (1 throttle_time_ms, 3 group_instance_id KIP-345, 4 flexible).   Authorised: READ GROUP.
Errors: UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID, INVALID_GROUP_ID,
NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.group_requests import with_group_id
from streamactors.broker.group.classic.classic_events import Heartbeat, HeartbeatAnswer
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import read_group


def handle(request: Request) -> Later:
    message = request.message
    request.node.groups.to_group(
        message.group_id,
        Heartbeat(
            request.answer_with(_body),
            message.member_id,
            message.group_instance_id,
            message.generation_id,
        ),
    )
    return LATER


def _body(answer: HeartbeatAnswer) -> Body:
    return {"error_code": answer.error}


API: Final = Api(key=12, versions=(0, 4), authorise=with_group_id(read_group), handle=handle)
