"""ListConfigResources: the resources of DescribeConfigs.

Versions: 0-1 (0 only client metrics, 1 any type KIP-1142).   Authorised: DESCRIBE_CONFIGS CLUSTER.
Errors: UNSUPPORTED_VERSION (an unknown type).
Differs from Apache Kafka: no loggers."""

from __future__ import annotations

from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.metadata_record import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
)
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster_configs

_TYPES: Final = frozenset(
    {TOPIC_RESOURCE, BROKER_RESOURCE, 8, CLIENT_METRICS_RESOURCE, GROUP_RESOURCE}
)  # loggers: none here
_NAMED_BY_SETTINGS: Final = frozenset({CLIENT_METRICS_RESOURCE, GROUP_RESOURCE})


def handle(request: Request) -> Body:
    if request.version == 0:
        asked = frozenset({CLIENT_METRICS_RESOURCE})
    else:
        asked = frozenset(request.message.resource_types) or _TYPES
    if not asked <= _TYPES:
        return {"error_code": ErrorCode.UNSUPPORTED_VERSION}
    image = request.node.metadata.image
    found: list[tuple[int, str]] = []
    if BROKER_RESOURCE in asked:
        found += [(BROKER_RESOURCE, str(broker_id)) for broker_id in image.brokers]
    if TOPIC_RESOURCE in asked:
        found += [(TOPIC_RESOURCE, name) for name in image.topics]
    found += [key for key in image.configs if key[0] in _NAMED_BY_SETTINGS & asked]
    return {"config_resources": [{"resource_type": kind, "resource_name": name} for kind, name in found]}


API: Final = Api(key=74, versions=(0, 1), authorise=describe_cluster_configs, handle=handle)
