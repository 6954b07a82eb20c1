"""JoinGroup: joins a classic group; answered when the next generation is made.

Versions: 0-9 (1 rebalance timeout, 4 required member ids KIP-394, 5 group.instance.id KIP-345, 6 flexible, 7
protocol type KIP-559, 8 a reason KIP-800, 9 skipped assignments KIP-814).   Authorised: READ GROUP.
Errors: MEMBER_ID_REQUIRED, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, INCONSISTENT_GROUP_PROTOCOL,
INVALID_SESSION_TIMEOUT, INVALID_GROUP_ID, GROUP_MAX_SIZE_REACHED, REBALANCE_IN_PROGRESS (the member sent another
JoinGroup), COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR.   Differs from Apache Kafka:
its log has a record of a new group, generation 0 without members, before the first member joins; here a group is
first written when it has an assignment."""

from __future__ import annotations

import uuid
from typing import Final

from streamactors.broker.apis.group_requests import with_group_id
from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.classic.classic_events import JoinAnswer, JoinGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import read_group

_NEEDS_KNOWN_ID: Final = 4
_NULL_PROTOCOL: Final = 7
_SKIPS_ASSIGNMENT: Final = 9


def handle(request: Request) -> Later:
    message = request.message
    session_timeout_ms = message.session_timeout_ms
    rebalance_timeout_ms = message.rebalance_timeout_ms if request.version >= 1 else session_timeout_ms
    client_id = request.header.client_id or ""
    request.node.groups.to_group(
        message.group_id,
        JoinGroup(
            request.answer_with(lambda answer: _body(request.version, answer)),
            message.member_id,
            message.group_instance_id,
            client_id,
            f"/{request.connection.host}",
            session_timeout_ms,
            max(rebalance_timeout_ms, 0),
            message.protocol_type,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in message.protocols),
            f"{client_id if message.group_instance_id is None else message.group_instance_id}-{uuid.uuid4()}",
            needs_known_id=request.version >= _NEEDS_KNOWN_ID,
            can_skip_assignment=request.version >= _SKIPS_ASSIGNMENT,
        ),
    )
    return LATER


def _body(version: int, answer: JoinAnswer) -> Body:
    return {
        "error_code": answer.error,
        "generation_id": answer.generation,
        "protocol_type": answer.protocol_type,
        "protocol_name": answer.protocol if version >= _NULL_PROTOCOL else answer.protocol or "",
        "leader": answer.leader,
        "skip_assignment": answer.skip_assignment,
        "member_id": answer.member_id,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in answer.members
        ],
    }


def refuse(request: Request, code: ErrorCode) -> Body:
    member_id = "" if code is ErrorCode.GROUP_AUTHORIZATION_FAILED else request.message.member_id
    return _body(request.version, JoinAnswer(code, member_id))


API: Final = Api(key=11, versions=(0, 9), authorise=with_group_id(read_group), handle=handle, refuse=refuse)
