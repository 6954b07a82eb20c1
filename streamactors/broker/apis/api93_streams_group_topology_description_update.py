"""StreamsGroupTopologyDescriptionUpdate: a streams application describes its topology, for a plug-in of the broker to keep.

Versions: 0.   Authorised: READ GROUP.
Errors: GROUP_AUTHORIZATION_FAILED; UNSUPPORTED_VERSION for all others, because there is no such plug-in, or streams.version is 0.
Differs from Apache Kafka: nothing; its default has no plug-in either."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.feature_off import OFF, OFF_MESSAGE, streams_enabled
from streamactors.broker.errors import ErrorCode
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each

_NO_PLUGIN: Final = "The broker has no streams group topology description plugin configured."


def handle(request: Request) -> Body:
    if not streams_enabled(request):
        return {"error_code": OFF, "error_message": OFF_MESSAGE}
    if not request.allowed(Operation.READ, ResourceType.GROUP, request.message.group_id):
        return {"error_code": ErrorCode.GROUP_AUTHORIZATION_FAILED}
    return {"error_code": OFF, "error_message": _NO_PLUGIN}


API: Final = Api(key=93, versions=(0, 0), authorise=each, handle=handle)
