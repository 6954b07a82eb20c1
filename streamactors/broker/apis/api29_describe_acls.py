"""DescribeAcls: answered as Apache Kafka does without an authoriser.

Versions: 1-3 (2 flexible, 3 user resources).   Authorised: DESCRIBE CLUSTER.
Errors: SECURITY_DISABLED, always.   Differs from Apache Kafka: there is no authoriser to configure yet."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import describe_cluster


def handle(request: Request) -> Body:
    return {
        "error_code": ErrorCode.SECURITY_DISABLED,
        "error_message": "No Authorizer is configured on the broker",
        "resources": (),
    }


API: Final = Api(key=29, versions=(1, 3), authorise=describe_cluster, handle=handle)
