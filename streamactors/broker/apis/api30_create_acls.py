"""CreateAcls: adds access control entries, each independently of the others.

Versions: 1-3 (2 flexible, 3 user resources).   Authorised: ALTER CLUSTER.
Errors: SECURITY_DISABLED without an authoriser, INVALID_REQUEST for an invalid entry.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.apis.acl_requests import NO_AUTHORISER
from streamactors.broker.controller.command import CreateAcls, Outcome
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Body | Later:
    if request.node.acls is None:
        return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORISER)

    @request.answer_with
    def reply(outcomes: Sequence[Outcome]) -> Body:
        return {"results": [{"error_code": code, "error_message": message} for code, message in outcomes]}

    command = CreateAcls(tuple(_entry(creation) for creation in request.message.creations))
    request.node.controller.submit(command, reply)
    return LATER


def _entry(creation: Any) -> AccessControlEntry:
    return AccessControlEntry(
        uuid.uuid4(),
        creation.resource_type,
        creation.resource_name,
        creation.resource_pattern_type,
        creation.principal,
        creation.host,
        creation.operation,
        creation.permission_type,
    )


def refuse(request: Request, code: ErrorCode, message: str | None = None) -> Body:
    return {"results": [{"error_code": code, "error_message": message} for _ in request.message.creations]}


API: Final = Api(key=30, versions=(1, 3), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
