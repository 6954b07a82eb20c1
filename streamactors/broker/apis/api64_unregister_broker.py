"""UnregisterBroker: the cluster forgets a broker that will not return (KIP-631).

Versions: 0.   Authorised: ALTER CLUSTER.   Errors: BROKER_ID_NOT_REGISTERED, INVALID_REQUEST (the broker of the controller).
Differs from Apache Kafka: the controller's own broker cannot be unregistered. A broker that still runs registers again in both."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import UnregisterBroker
from streamactors.broker.controller.command import Outcome
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Later:
    @request.answer_with
    def reply(outcome: Outcome) -> Body:
        return {"throttle_time_ms": 0, "error_code": outcome.code, "error_message": outcome.message}

    request.node.controller.submit(UnregisterBroker(request.message.broker_id), reply)
    return LATER


API: Final = Api(key=64, versions=(0, 0), authorise=alter_cluster, handle=handle, forwarded=True)
