"""ListGroups: the groups that this broker coordinates.

Versions: 0-5 (1 throttle_time_ms, 3 flexible, 4 by state KIP-518, 5 by type KIP-848).   Authorised: DESCRIBE
CLUSTER for all groups, otherwise DESCRIBE of each GROUP.   Errors: COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.group.group_kind import CoordinatedGroup
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import CLUSTER_NAME, Operation, ResourceType, anyone


def handle(request: Request) -> Later:
    message = request.message
    states = {state.lower().strip() for state in message.states_filter}
    types = {kind.lower() for kind in message.types_filter}
    all_groups = request.allowed(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    @request.answer_with
    def reply(error: ErrorCode, groups: Sequence[CoordinatedGroup]) -> Body:
        listed = [
            {
                "group_id": group.group_id,
                "protocol_type": group.listed_protocol,
                "group_state": group.state_name,
                "group_type": group.group_type.value,
            }
            for group in sorted(groups, key=lambda group: group.group_id)
            if (not states or group.state_name.lower() in states)
            and (not types or group.group_type.value in types)
            and (all_groups or request.allowed(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
        ]
        return {"error_code": error, "groups": listed}

    request.node.groups.list_groups(reply)
    return LATER


API: Final = Api(key=16, versions=(0, 5), authorise=anyone, handle=handle)
