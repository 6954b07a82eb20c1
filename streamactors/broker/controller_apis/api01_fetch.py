"""Fetch of the metadata log by the other nodes of the cluster.

Versions: 13-18 (13 topic ids, 15 replica state KIP-903, 17 directory id KIP-853, 18 the follower's high watermark).
Authorised: CLUSTER_ACTION.   Errors: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, UNKNOWN_TOPIC_ID.
Differs from Apache Kafka: no sessions."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller.metadata_feed import AskQuorum
from streamactors.broker.controller.metadata_log import TOPIC_ID
from streamactors.broker.errors import ErrorCode
from streamactors.broker.quorum.raft.raft_messages import NOT_TOLD, Fetch, FetchAnswer
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_REPLICA_STATE: Final = 15
_FIRST_WITH_ENDPOINTS: Final = 16
_FIRST_WITH_DIRECTORY: Final = 17
_FIRST_WITH_HIGH_WATERMARK: Final = 18


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return {"throttle_time_ms": 0, "error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "responses": ()}
    if len(message.topics) != 1 or message.topics[0].topic_id != TOPIC_ID or len(message.topics[0].partitions) != 1:
        return {"throttle_time_ms": 0, "error_code": ErrorCode.UNKNOWN_TOPIC_ID, "responses": ()}
    asked = message.topics[0].partitions[0]
    replica = message.replica_state.replica_id if request.version >= _FIRST_WITH_REPLICA_STATE else message.replica_id
    fetch = Fetch(
        asked.current_leader_epoch,
        replica,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        asked.high_watermark if request.version >= _FIRST_WITH_HIGH_WATERMARK else NOT_TOLD,
        message.max_wait_ms,
    )
    directory_id = asked.replica_directory_id if request.version >= _FIRST_WITH_DIRECTORY else None

    @request.answer_with
    def reply(answer: FetchAnswer) -> Body:
        return _body(request, answer)

    request.node.controller.submit(AskQuorum(fetch, directory_id), reply)
    return LATER


def _body(request: Request, answer: FetchAnswer) -> Body:
    leader = -1 if answer.leader is None else answer.leader
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": answer.error,
        "high_watermark": answer.high_watermark,
        "last_stable_offset": -1,
        "log_start_offset": answer.log_start,
        "aborted_transactions": None,
        "records": b"".join(answer.batches),
        "current_leader": {"leader_id": leader, "leader_epoch": answer.epoch},
    }
    for name, end in (("diverging_epoch", answer.diverging), ("snapshot_id", answer.snapshot)):
        if end is not None:
            partition[name] = {"epoch": end[0], "end_offset": end[1]}
    body: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.NONE,
        "responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
    }
    if request.version >= _FIRST_WITH_ENDPOINTS:
        body["node_endpoints"] = node_endpoints(request.node, leader)
    return body


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "responses": ()}


API: Final = Api(key=1, versions=(13, 18), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
