"""BrokerRegistration: a broker joins the cluster under a new incarnation, fenced at first (KIP-631).

Versions: 2-4 (2 data folders, 3 the epoch before a clean stop KIP-966, 4 features from level 0).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (a live broker has the id), INVALID_REGISTRATION (no listener, no data
folder, or the folder of another broker), UNSUPPORTED_VERSION (a feature of the cluster is missing).
Differs from Apache Kafka: a broker without listeners, with a negative id or with the controller's id is refused."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import RegisterBroker, Registered
from streamactors.broker.metadata.metadata_record import Endpoint, Feature
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_PREVIOUS_EPOCH: Final = 3


def handle(request: Request) -> Later:
    message = request.message
    command = RegisterBroker(
        broker_id=message.broker_id,
        cluster_id=message.cluster_id,
        incarnation_id=message.incarnation_id,
        endpoints=tuple(
            Endpoint(each.name, each.host, each.port, each.security_protocol) for each in message.listeners
        ),
        features=tuple(
            Feature(each.name, each.min_supported_version, each.max_supported_version) for each in message.features
        ),
        rack=message.rack,
        log_dirs=tuple(message.log_dirs),
        previous_epoch=message.previous_broker_epoch if request.version >= _FIRST_WITH_PREVIOUS_EPOCH else -1,
    )

    @request.answer_with
    def reply(registered: Registered) -> Body:
        return {"throttle_time_ms": 0, "error_code": registered.error, "broker_epoch": registered.broker_epoch}

    request.node.controller.submit(command, reply)
    return LATER


API: Final = Api(key=62, versions=(2, 4), authorise=cluster_action, handle=handle, between_nodes=True)
