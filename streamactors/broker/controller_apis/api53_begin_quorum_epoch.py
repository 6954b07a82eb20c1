"""BeginQuorumEpoch: a voter says that it leads the metadata log in an epoch (KIP-595).

Versions: 0-1 (1 folder ids and endpoints KIP-853).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_VOTER_KEY (the request is for another voter, or its folder is not this one), INVALID_REQUEST, FENCED_LEADER_EPOCH.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller_apis.quorum_requests import ask_quorum, is_to_voter, nothing_more, refuse
from streamactors.broker.quorum.raft.raft_messages import BeginEpoch
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Body | Later:
    return ask_quorum(
        request,
        lambda partition: BeginEpoch(partition.leader_epoch, partition.leader_id, is_to_voter(request, partition)),
        nothing_more,
        endpoints_from=1,
    )


API: Final = Api(key=53, versions=(0, 1), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
