"""DeleteAcls: removes the access control entries that match filters.

Versions: 1-3 (2 flexible, 3 user resources).   Authorised: ALTER CLUSTER.
Errors: SECURITY_DISABLED without an authoriser, INVALID_REQUEST for an unknown code.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from streamactors.broker.apis.acl_requests import NO_AUTHORISER, filter_of, why_no_filter
from streamactors.broker.controller.command import AclsDeleted, DeleteAcls
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.security_record import AccessControlEntry
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Body | Later:
    if request.node.acls is None:
        return refuse(request, ErrorCode.SECURITY_DISABLED, NO_AUTHORISER)
    filters = [filter_of(each, request.version) for each in request.message.filters]
    wrong = [why_no_filter(each) for each in filters]

    @request.answer_with
    def reply(results: Sequence[AclsDeleted]) -> Body:
        done = iter(results)
        answers = [_result(next(done)) if why is None else _refused(ErrorCode.INVALID_REQUEST, why) for why in wrong]
        return {"filter_results": answers}

    good = tuple(each for each, why in zip(filters, wrong, strict=True) if why is None)
    request.node.controller.submit(DeleteAcls(good), reply)
    return LATER


def _result(deleted: AclsDeleted) -> dict[str, Any]:
    (code, message), entries = deleted
    return {"error_code": code, "error_message": message, "matching_acls": [_entry(each) for each in entries]}


def _entry(entry: AccessControlEntry) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "resource_type": entry.resource_type,
        "resource_name": entry.resource_name,
        "pattern_type": entry.pattern_type,
        "principal": entry.principal,
        "host": entry.host,
        "operation": entry.operation,
        "permission_type": entry.permission_type,
    }


def _refused(code: ErrorCode, message: str | None) -> dict[str, Any]:
    return {"error_code": code, "error_message": message, "matching_acls": ()}


def refuse(request: Request, code: ErrorCode, message: str | None = None) -> Body:
    return {"filter_results": [_refused(code, message) for _ in request.message.filters]}


API: Final = Api(key=31, versions=(1, 3), authorise=alter_cluster, handle=handle, refuse=refuse, forwarded=True)
