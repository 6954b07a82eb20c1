"""DescribeCluster on a listener for controllers: the id of the cluster and its controllers.

Versions: 0-2 (1 endpoint type, 2 fenced brokers).   Authorised: everyone.   Errors: MISMATCHED_ENDPOINT_TYPE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone

_CONTROLLERS: Final = 2


def handle(request: Request) -> Body:
    if request.version >= 1 and request.message.endpoint_type != _CONTROLLERS:
        return {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "error_message": "The request was sent to an endpoint of type CONTROLLER, but we wanted an endpoint of type "
            "BROKER",
        }
    node = request.node
    return {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.NONE,
        "endpoint_type": _CONTROLLERS,
        "cluster_id": node.cluster_id,
        "controller_id": node.leader_id,
        "brokers": [
            {"broker_id": each["node_id"], "host": each["host"], "port": each["port"], "rack": None}
            for each in node_endpoints(node, *sorted({node.node_id, *node.controllers}))
        ],
    }


API: Final = Api(key=60, versions=(0, 2), authorise=anyone, handle=handle)
