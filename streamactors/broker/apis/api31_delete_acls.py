"""DeleteAcls: answered as Apache Kafka does without an authoriser.

Versions: 1-3 (2 flexible, 3 user resources).   Authorised: ALTER CLUSTER.
Errors: SECURITY_DISABLED, always.   Differs from Apache Kafka: there is no authoriser to configure yet."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import alter_cluster

_MESSAGE: Final = "No Authorizer is configured."


def handle(request: Request) -> Body:
    return refuse(request, ErrorCode.SECURITY_DISABLED, _MESSAGE)


def refuse(request: Request, code: ErrorCode, message: str | None = None) -> Body:
    return {"filter_results": [{"error_code": code, "error_message": message} for _ in request.message.filters]}


API: Final = Api(key=31, versions=(1, 3), authorise=alter_cluster, handle=handle, refuse=refuse)
