"""EndQuorumEpoch: the leader of the metadata log gives up its epoch, and names the voters that should lead next (KIP-595).

Versions: 0-1 (1 folder ids and endpoints KIP-853).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_REQUEST, FENCED_LEADER_EPOCH.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller_apis.quorum_requests import ask_quorum, nothing_more, refuse
from streamactors.broker.quorum.raft.raft_messages import EndEpoch
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_DIRECTORIES: Final = 1


def handle(request: Request) -> Body | Later:
    def end(partition: Any) -> EndEpoch:
        if request.version >= _FIRST_WITH_DIRECTORIES:
            successors = tuple(each.candidate_id for each in partition.preferred_candidates)
        else:
            successors = tuple(partition.preferred_successors)
        return EndEpoch(partition.leader_epoch, partition.leader_id, successors)

    return ask_quorum(request, end, nothing_more, endpoints_from=1)


API: Final = Api(key=54, versions=(0, 1), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
