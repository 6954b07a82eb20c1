"""UpdateRaftVoter: a voter of the metadata log has other addresses than the log says, or supports other levels of kraft.version (KIP-853).

Versions: 0.   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, INVALID_REQUEST, VOTER_NOT_FOUND,
REQUEST_TIMED_OUT (another change is not committed). Where the settings name the voters (kraft.version 0), the leader keeps the answer for the
upgrade of kraft.version.   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.metadata_feed import ChangeVoters
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.voter_requests import Changed, Update
from streamactors.broker.quorum.voter_set import KraftVersions, Voter, VoterEndpoint
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    if message.voter_id < 0 or message.voter_directory_id is None or not message.listeners:
        return refuse(request, ErrorCode.INVALID_REQUEST)
    levels = message.k_raft_version_feature
    voter = Voter(
        message.voter_id,
        message.voter_directory_id,
        tuple(VoterEndpoint(each.name, each.host, each.port) for each in message.listeners),
        KraftVersions(levels.min_supported_version, levels.max_supported_version),
    )

    @request.answer_with
    def reply(changed: Changed) -> Body:
        return refuse(request, changed.code)

    request.node.controller.submit(ChangeVoters(Update(voter, message.current_leader_epoch)), reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    """Return the answer, which names the leader in any case."""
    node = request.node
    leader = {"leader_id": -1, "leader_epoch": -1, "host": "", "port": 0}
    for each in node_endpoints(node, node.leader_id):
        leader |= {"leader_id": node.leader_id, "host": each["host"], "port": each["port"]}
    return {"throttle_time_ms": 0, "error_code": code, "current_leader": leader}


API: Final = Api(key=82, versions=(0, 0), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
