"""DescribeClientQuotas: the quotas of users, client ids and addresses. None can be set yet, so the answer is empty.

Versions: 0-1 (1 flexible).   Authorised: DESCRIBE_CONFIGS CLUSTER.
Errors: none.   Differs from Apache Kafka: there are no quotas; AlterClientQuotas is not served."""

from __future__ import annotations

from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security.rights import describe_cluster_configs


def handle(request: Request) -> Body:
    return {"error_code": ErrorCode.NONE, "error_message": None, "entries": ()}


API: Final = Api(key=48, versions=(0, 1), authorise=describe_cluster_configs, handle=handle)
