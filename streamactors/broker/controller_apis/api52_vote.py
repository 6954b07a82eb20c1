"""Vote: a candidate asks this voter of the metadata log for its vote, or in a pre-vote whether it would give it (KIP-595, KIP-996).

Versions: 0-2 (1 folder ids KIP-853, 2 pre-votes).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, INVALID_VOTER_KEY (the request is for another voter, or its folder is not this one), INVALID_REQUEST, FENCED_LEADER_EPOCH.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller_apis.quorum_requests import ask_quorum, is_to_voter, refuse
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import Vote
from streamactors.broker.requests.api import Api, Body, Later
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_PRE_VOTE: Final = 2


def handle(request: Request) -> Body | Later:
    for topic in request.message.topics:
        for each in topic.partitions:
            if min(each.replica_epoch, each.replica_id, each.last_offset_epoch, each.last_offset) < 0:
                return refuse(request, ErrorCode.INVALID_REQUEST)

    def vote(partition: Any) -> Vote:
        return Vote(
            partition.replica_epoch,
            partition.replica_id,
            partition.last_offset_epoch,
            partition.last_offset,
            request.version >= _FIRST_WITH_PRE_VOTE and partition.pre_vote,
            partition.replica_directory_id,
            is_to_voter(request, partition),
        )

    return ask_quorum(request, vote, lambda answer: {"vote_granted": answer.granted}, endpoints_from=1)


API: Final = Api(key=52, versions=(0, 2), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
