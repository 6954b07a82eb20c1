"""UnregisterController: the cluster forgets a controller that will not return.

Versions: 0.   Authorised: ALTER CLUSTER.   Errors: CONTROLLER_ID_NOT_REGISTERED, INVALID_REQUEST (the active controller), UNSUPPORTED_VERSION
(metadata.version is below 4.4-IV2).   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import UnregisterController
from streamactors.broker.controller.command import Outcome
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Later:
    @request.answer_with
    def reply(outcome: Outcome) -> Body:
        return {"throttle_time_ms": 0, "error_code": outcome.code, "error_message": outcome.message}

    request.node.controller.submit(UnregisterController(request.message.controller_id), reply)
    return LATER


API: Final = Api(key=94, versions=(0, 0), authorise=alter_cluster, handle=handle, forwarded=True)
