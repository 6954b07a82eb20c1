"""RemoveRaftVoter: a controller loses its vote on the metadata log, and continues to read it if it still runs (KIP-853).

Versions: 0.   Authorised: ALTER CLUSTER.
Errors: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, UNSUPPORTED_VERSION (the settings name the voters, kraft.version 0), INVALID_REQUEST
(no id or folder, or the last voter), VOTER_NOT_FOUND, REQUEST_TIMED_OUT (another change is not committed).
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Final

from streamactors.broker.apis.api80_add_raft_voter import body
from streamactors.broker.controller.metadata_feed import ChangeVoters
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.voter_requests import Changed, Remove
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return body(Changed(ErrorCode.INCONSISTENT_CLUSTER_ID))
    if message.voter_id < 0 or message.voter_directory_id is None:
        why = "Remove voter request didn't include a valid voter: an id and a directory id"
        return body(Changed(ErrorCode.INVALID_REQUEST, why))

    @request.answer_with
    def reply(changed: Changed) -> Body:
        return body(changed)

    request.node.controller.submit(ChangeVoters(Remove(message.voter_id, message.voter_directory_id)), reply)
    return LATER


API: Final = Api(key=81, versions=(0, 0), authorise=alter_cluster, handle=handle, forwarded=True)
