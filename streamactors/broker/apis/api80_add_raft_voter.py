"""AddRaftVoter: a controller that follows the metadata log gets a vote on it (KIP-853).

Versions: 0-1 (1 an answer before the commit, KIP-1186).   Authorised: ALTER CLUSTER.
Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION (the settings name the voters, kraft.version 0), INVALID_REQUEST
(no id, folder or address, or the node does not support kraft.version 1), DUPLICATE_VOTER, REQUEST_TIMED_OUT (another change is not
committed, or the node does not answer or has not read the whole log).   Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.controller.metadata_feed import ChangeVoters
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.voter_requests import Add, Changed
from streamactors.broker.quorum.voter_set import Voter, VoterEndpoint
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster

_FIRST_WITH_ACK: Final = 1


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return body(Changed(ErrorCode.INCONSISTENT_CLUSTER_ID))
    if message.voter_id < 0 or message.voter_directory_id is None or not message.listeners:
        why = "Add voter request didn't include a valid voter: an id, a directory id and endpoints"
        return body(Changed(ErrorCode.INVALID_REQUEST, why))
    endpoints = tuple(VoterEndpoint(each.name, each.host, each.port) for each in message.listeners)
    voter = Voter(message.voter_id, message.voter_directory_id, endpoints)

    @request.answer_with
    def reply(changed: Changed) -> Body:
        return body(changed)

    add = Add(voter, message.timeout_ms, request.version < _FIRST_WITH_ACK or message.ack_when_committed)
    request.node.controller.submit(ChangeVoters(add), reply)
    return LATER


def body(changed: Changed) -> Body:
    """Return the answer, which RemoveRaftVoter gives in the same form."""
    return {"throttle_time_ms": 0, "error_code": changed.code, "error_message": changed.message}


API: Final = Api(key=80, versions=(0, 1), authorise=alter_cluster, handle=handle, forwarded=True)
