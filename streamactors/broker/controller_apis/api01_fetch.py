"""Fetch of the metadata log by the other nodes of the cluster.

Versions: 13-18 (13 topic ids, 15 replica state KIP-903, 17 directory id KIP-853, 18 the follower's high watermark).
Authorised: CLUSTER_ACTION.   Errors: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, UNKNOWN_TOPIC_ID.
Differs from Apache Kafka: this node is the only voter; no sessions."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.controller.metadata_feed import NONE, Fed, FetchMetadata
from streamactors.broker.controller.metadata_log import TOPIC_ID
from streamactors.broker.controller_apis.endpoints import node_endpoints
from streamactors.broker.errors import ErrorCode
from streamactors.broker.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_REPLICA_STATE: Final = 15
_FIRST_WITH_ENDPOINTS: Final = 16
_FIRST_WITH_DIRECTORY: Final = 17


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return {"throttle_time_ms": 0, "error_code": ErrorCode.INCONSISTENT_CLUSTER_ID, "responses": ()}
    if len(message.topics) != 1 or message.topics[0].topic_id != TOPIC_ID or len(message.topics[0].partitions) != 1:
        return {"throttle_time_ms": 0, "error_code": ErrorCode.UNKNOWN_TOPIC_ID, "responses": ()}
    asked = message.topics[0].partitions[0]
    replica = message.replica_state.replica_id if request.version >= _FIRST_WITH_REPLICA_STATE else message.replica_id
    fetch = FetchMetadata(
        asked.current_leader_epoch,
        asked.fetch_offset,
        asked.last_fetched_epoch,
        message.max_wait_ms,
        replica_id=replica,
        directory_id=asked.replica_directory_id if request.version >= _FIRST_WITH_DIRECTORY else None,
    )

    @request.answer_with
    def reply(fed: Fed) -> Body:
        return _body(request, fed)

    request.node.controller.submit(fetch, reply)
    return LATER


def _body(request: Request, fed: Fed) -> Body:
    partition: dict[str, Any] = {
        "partition_index": 0,
        "error_code": fed.error,
        "high_watermark": fed.high_watermark,
        "last_stable_offset": -1,
        "log_start_offset": fed.log_start_offset,
        "aborted_transactions": None,
        "records": fed.records,
        "current_leader": {"leader_id": fed.leader.leader_id, "leader_epoch": fed.leader.epoch},
    }
    for name, (epoch, end_offset) in (("diverging_epoch", fed.diverging), ("snapshot_id", fed.snapshot)):
        if (epoch, end_offset) != NONE:
            partition[name] = {"epoch": epoch, "end_offset": end_offset}
    body: dict[str, Any] = {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.NONE,
        "responses": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
    }
    if request.version >= _FIRST_WITH_ENDPOINTS:
        body["node_endpoints"] = node_endpoints(request.node)
    return body


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "responses": ()}


API: Final = Api(key=1, versions=(13, 18), authorise=cluster_action, handle=handle, refuse=refuse)
