"""DescribeCluster: the cluster's id, its controller and its brokers.

Versions: 0-2 (1 endpoint type, 2 fenced brokers).   Authorised: everyone; the answer lists the client's authorised operations.
Errors: MISMATCHED_ENDPOINT_TYPE (this listener is not a controller's), UNSUPPORTED_ENDPOINT_TYPE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_cluster
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone

_BROKERS: Final = 1
_CONTROLLERS: Final = 2


def handle(request: Request) -> Body:
    message = request.message
    endpoint_type = message.endpoint_type
    if endpoint_type == _CONTROLLERS:
        return {
            "error_code": ErrorCode.MISMATCHED_ENDPOINT_TYPE,
            "error_message": "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER",
        }
    if endpoint_type != _BROKERS:
        return {
            "error_code": ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            "error_message": f"Unsupported endpoint type {endpoint_type}",
        }
    node = request.node
    brokers = []
    for broker in node.metadata.image.brokers.values():
        endpoint = broker.endpoint(request.listener.name)
        if endpoint is None or (broker.fenced and not message.include_fenced_brokers):
            continue
        brokers.append(
            {
                "broker_id": broker.broker_id,
                "host": endpoint.host,
                "port": endpoint.port,
                "rack": broker.rack,
                "is_fenced": broker.fenced,
            }
        )
    return {
        "cluster_id": node.cluster_id,
        "controller_id": node.node_id,
        "brokers": brokers,
        "cluster_authorized_operations": on_cluster(request)
        if message.include_cluster_authorized_operations
        else NOT_ASKED,
    }


API: Final = Api(key=60, versions=(0, 2), authorise=anyone, handle=handle)
