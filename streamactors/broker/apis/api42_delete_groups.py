"""DeleteGroups: deletes empty groups with their committed offsets.

Versions: 0-3 (1 throttle_time_ms, 2 flexible, 3 a message by group KIP-1331).   Authorised: DELETE each GROUP.   Errors: by group:
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR,
COORDINATOR_NOT_AVAILABLE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each


def handle(request: Request) -> Later:
    names = list(dict.fromkeys(request.message.groups_names))
    allowed = [name for name in names if request.allowed(Operation.DELETE, ResourceType.GROUP, name)]

    @request.answer_with
    def reply(errors: Sequence[ErrorCode]) -> Body:
        found = dict(zip(allowed, errors, strict=True))
        return _body([(name, found.get(name, ErrorCode.GROUP_AUTHORIZATION_FAILED)) for name in names])

    request.node.groups.delete_groups(allowed, reply)
    return LATER


def _body(results: Sequence[tuple[str, ErrorCode]]) -> Body:
    return {"results": [{"group_id": name, "error_code": error} for name, error in results]}


def refuse(request: Request, code: ErrorCode) -> Body:
    return _body([(name, code) for name in request.message.groups_names])


API: Final = Api(key=42, versions=(0, 3), authorise=each, handle=handle, refuse=refuse)
