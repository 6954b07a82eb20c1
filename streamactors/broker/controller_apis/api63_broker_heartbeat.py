"""BrokerHeartbeat: keeps the session of a broker alive, and asks to be unfenced, fenced or released (KIP-631).

Versions: 0-2 (1 offline data folders, 2 cordoned data folders KIP-1066).   Authorised: CLUSTER_ACTION.   Errors: STALE_BROKER_EPOCH.
Differs from Apache Kafka: with controller.fence.closed.connections, a broker whose heartbeat connection is closed and whose listener
refuses connections is fenced at once: its process has ended."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.cluster_command import Beat, Heartbeat
from streamactors.broker.controller_apis.heartbeat_connection import watch
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_FOLDERS: Final = 1


def handle(request: Request) -> Later:
    message = request.message
    if request.node.config.controller_fence_closed_connections:
        watch(request, message.broker_id, message.broker_epoch)
    command = Heartbeat(
        message.broker_id,
        message.broker_epoch,
        message.current_metadata_offset,
        message.want_fence,
        message.want_shut_down,
        tuple(message.offline_log_dirs) if request.version >= _FIRST_WITH_FOLDERS else (),
        None if message.cordoned_log_dirs is None else tuple(message.cordoned_log_dirs),
    )

    @request.answer_with
    def reply(beat: Beat) -> Body:
        return {
            "throttle_time_ms": 0,
            "error_code": beat.error,
            "is_caught_up": beat.is_caught_up,
            "is_fenced": beat.is_fenced,
            "should_shut_down": beat.should_shut_down,
        }

    request.node.controller.submit(command, reply)
    return LATER


API: Final = Api(key=63, versions=(0, 2), authorise=cluster_action, handle=handle, between_nodes=True)
