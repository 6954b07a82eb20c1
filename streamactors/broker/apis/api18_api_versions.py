"""ApiVersions: what this broker serves, in which versions.

Versions: 0-4 (1 throttle_time_ms; 3 flexible, client software KIP-511, features KIP-584; 4 feature range from 0).
Authorised: anyone.   Errors: UNSUPPORTED_VERSION, answered in version 0 with the range of ApiVersions itself, so that
every client can read it (KIP-511); INVALID_REQUEST for a client software name that is none. Differs from Apache Kafka:
the list is made of the routes that exist, and there are no features."""

from __future__ import annotations

import re
from typing import Final

from streamactors.broker.api import Api, Body
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security import anyone

_VERSIONS: Final = (0, 4)
_FIRST_WITH_SOFTWARE: Final = 3
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(request: Request) -> Body:
    message = request.message
    if request.version >= _FIRST_WITH_SOFTWARE:
        name, version = message.client_software_name, message.client_software_version
        if not _SOFTWARE.fullmatch(name) or not _SOFTWARE.fullmatch(version):
            return {"error_code": ErrorCode.INVALID_REQUEST}
        request.connection.client_software = f"{name} {version}"
    return {
        "api_keys": [
            {"api_key": key, "min_version": low, "max_version": high} for key, low, high in request.node.routes.ranges
        ]
    }


def _refuse(request: Request, code: ErrorCode) -> Body:
    low, high = _VERSIONS
    return {"error_code": code, "api_keys": [{"api_key": 18, "min_version": low, "max_version": high}]}


API: Final = Api(key=18, versions=_VERSIONS, authorise=anyone, handle=handle, refuse=_refuse)
