"""What the requests between the voters of the metadata log have in common: one topic, one partition, the leader in every answer.

Differs between the APIs: the fields of the partition, in the request and in the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from streamactors.broker.controller.metadata_feed import AskQuorum
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.quorum.raft.raft_messages import Answer
from streamactors.broker.quorum.raft.raft_messages import Request as QuorumRequest
from streamactors.broker.requests.api import LATER, Body, Later
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request


def ask_quorum(
    request: Request, asked_of: Callable[[Any], QuorumRequest], more: Callable[[Any], Body], *, endpoints_from: int
) -> Body | Later:
    """Have this node's replica answer. `asked_of` reads the request's partition, `more` returns further fields of the answer's one.

    Answers name the address of the leader in versions from `endpoints_from` on."""
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    topics = message.topics
    if len(topics) != 1 or topics[0].topic_name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return refuse(request, ErrorCode.INVALID_REQUEST)

    @request.answer_with
    def reply(answer: Answer) -> Body:
        leader = -1 if answer.leader is None else answer.leader
        partition = {
            "partition_index": 0,
            "error_code": answer.error,
            "leader_id": leader,
            "leader_epoch": answer.epoch,
            **more(answer),
        }
        body: dict[str, Any] = {
            "error_code": ErrorCode.NONE,
            "topics": [{"topic_name": METADATA_TOPIC, "partitions": [partition]}],
        }
        if request.version >= endpoints_from:
            body["node_endpoints"] = node_endpoints(request.node, leader)
        return body

    asked = asked_of(topics[0].partitions[0])
    request.node.controller.submit(AskQuorum(asked), reply)
    return LATER


def is_to_voter(request: Request, partition: Any) -> bool:
    """Whether a request names this node as a voter, by its id and its folder, or no voter. A request without a folder matches any folder."""
    voter, folder = request.message.voter_id, partition.voter_directory_id
    if voter < 0:
        return True
    own = request.node.logs.properties.directory_id
    return bool(voter == request.node.node_id and (None in (folder, own) or folder == own))


def nothing_more(_: Answer) -> Body:
    """Return no further fields."""
    return {}


def refuse(_: Request, code: ErrorCode) -> Body:
    """Return the answer that refuses the whole request."""
    return {"error_code": code, "topics": ()}
