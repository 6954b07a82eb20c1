"""DescribeAcls: the access control entries that match a filter.

Versions: 1-3 (2 flexible, 3 user resources).   Authorised: DESCRIBE CLUSTER.
Errors: SECURITY_DISABLED without an authoriser, INVALID_REQUEST for an unknown code.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.acl_requests import by_resource, filter_of, why_no_filter
from streamactors.broker.controller.rules.plan_security import matches
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster


def handle(request: Request) -> Body:
    if request.node.acls is None:
        raise Refusal(ErrorCode.SECURITY_DISABLED, "No Authorizer is configured on the broker")
    wanted = filter_of(request.message, request.version)
    wrong = why_no_filter(wanted)
    if wrong is not None:
        raise Refusal(ErrorCode.INVALID_REQUEST, wrong)
    found = (entry for entry in request.node.metadata.image.acls.values() if matches(wanted, entry))
    return {"error_code": ErrorCode.NONE, "error_message": None, "resources": by_resource(found)}


API: Final = Api(key=29, versions=(1, 3), authorise=describe_cluster, handle=handle, on_controllers=True)
