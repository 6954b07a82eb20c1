"""ControllerRegistration: a controller says where it listens and which features it supports (KIP-919).

Versions: 0.   Authorised: CLUSTER_ACTION.   Errors: NOT_CONTROLLER, UNSUPPORTED_VERSION (the metadata version is older than 3.7-IV0).
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import RegisterController
from streamactors.broker.controller.command import Outcome
from streamactors.broker.metadata.metadata_record import ControllerRegistration, Endpoint, Feature
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Later:
    message = request.message
    registration = ControllerRegistration(
        message.controller_id,
        message.incarnation_id,
        message.zk_migration_ready,
        tuple(Endpoint(each.name, each.host, each.port, each.security_protocol) for each in message.listeners),
        tuple(Feature(each.name, each.min_supported_version, each.max_supported_version) for each in message.features),
    )

    @request.answer_with
    def reply(outcome: Outcome) -> Body:
        return {"throttle_time_ms": 0, "error_code": outcome.code, "error_message": outcome.message}

    request.node.controller.submit(RegisterController(registration), reply)
    return LATER


API: Final = Api(key=70, versions=(0, 0), authorise=cluster_action, handle=handle, between_nodes=True)
