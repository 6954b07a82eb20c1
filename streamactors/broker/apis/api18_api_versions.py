"""ApiVersions: the APIs of this broker, with their versions and features.

Versions: 0-5 (1 throttle_time_ms; 3 flexible, client software KIP-511, features KIP-584; 4 feature range from 0; 5 the node that the client
means to reach, KIP-1242).
Authorised: anyone.   Errors: UNSUPPORTED_VERSION, answered in version 0 with the range of ApiVersions itself, so that
every client can read it (KIP-511); INVALID_REQUEST for an illegal client software name, or for a cluster id without a node id and the reverse;
REBOOTSTRAP_REQUIRED if this broker is not that node of that cluster: an address belongs to another broker now. Controllers do not check it. Before version 4 a supported feature whose lowest
level is 0 is left out, because older clients would refuse the whole answer.
Differs from Apache Kafka: the list has the APIs that this broker serves."""

from __future__ import annotations

import re
from typing import Final

from streamactors.broker.controller.rules.feature_rules import KRAFT_VERSION, SUPPORTED
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.voter_set import KRAFT_VERSIONS
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import anyone

_VERSIONS: Final = (0, 5)
_FIRST_WITH_SOFTWARE: Final = 3
_FIRST_WITH_LEVEL_0: Final = 4
_TELEMETRY: Final = (71, 72)  # a client that finds them pushes metrics
_NO_NODE: Final = -1
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request) -> Body:
    message = request.message
    if (message.cluster_id is None) != (message.node_id == _NO_NODE):
        return {"error_code": ErrorCode.INVALID_REQUEST}
    if request.version >= _FIRST_WITH_SOFTWARE:
        name, version = message.client_software_name, message.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        request.connection.client_software = f"{name} {version}"
    if message.cluster_id is not None and not _is_meant(request):
        return {"error_code": ErrorCode.REBOOTSTRAP_REQUIRED}
    image = request.node.metadata.image
    kraft = {} if request.node.voters is None else {KRAFT_VERSION: KRAFT_VERSIONS[1]}
    return {
        "api_keys": [
            {"api_key": key, "min_version": low, "max_version": high}
            for key, low, high in request.node.served_on(request.listener).ranges
            if key not in _TELEMETRY or request.node.receives_telemetry
        ],
        "supported_features": [
            {"name": name, "min_version": low, "max_version": high}
            for name, low, high in SUPPORTED
            if low or request.version >= _FIRST_WITH_LEVEL_0
        ],
        "finalized_features_epoch": image.offset,
        "finalized_features": [
            {"name": name, "min_version_level": level, "max_version_level": level}
            for name, level in {**image.features, **kraft}.items()
        ],
    }


def _is_meant(request: Request) -> bool:
    """Whether this node is the one that the client names; a listener for controllers takes every client."""
    named = (request.message.cluster_id, request.message.node_id)
    return request.listener.for_controllers or named == (request.node.cluster_id, request.node.node_id)


def _refuse(request: Request, code: ErrorCode) -> Body:
    low, high = _VERSIONS
    return {"error_code": code, "api_keys": [{"api_key": 18, "min_version": low, "max_version": high}]}


API: Final = Api(
    key=18, versions=_VERSIONS, authorise=anyone, handle=handle, refuse=_refuse, on_controllers=True, between_nodes=True
)
