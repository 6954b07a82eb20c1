"""FetchSnapshot: a snapshot of the metadata, piece by piece, for a node whose next records are no longer in the log (KIP-630).

Versions: 0-1 (1 directory id and endpoints KIP-853).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller.metadata_feed import AskQuorum
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.quorum.raft.raft_messages import FetchSnapshot, SnapshotPiece
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action

_FIRST_WITH_ENDPOINTS: Final = 1


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    topics = message.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    asked = topics[0].partitions[0]
    wanted = asked.snapshot_id
    ask = FetchSnapshot(
        asked.current_leader_epoch, message.replica_id, (wanted.epoch, wanted.end_offset), asked.position
    )

    @request.answer_with
    def reply(piece: SnapshotPiece) -> Body:
        leader = -1 if piece.leader is None else piece.leader
        partition: dict[str, Any] = {
            "index": 0,
            "error_code": piece.error,
            "snapshot_id": {"end_offset": wanted.end_offset, "epoch": wanted.epoch},
            "current_leader": {"leader_id": leader, "leader_epoch": piece.epoch},
            "size": piece.size,
            "position": asked.position,
            "unaligned_records": piece.content[: max(message.max_bytes, 0)],
        }
        body: dict[str, Any] = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE}
        body["topics"] = [{"name": METADATA_TOPIC, "partitions": [partition]}]
        if request.version >= _FIRST_WITH_ENDPOINTS:
            body["node_endpoints"] = node_endpoints(request.node, leader)
        return body

    request.node.controller.submit(AskQuorum(ask), reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "topics": ()}


API: Final = Api(key=59, versions=(0, 1), authorise=cluster_action, handle=handle, refuse=refuse, between_nodes=True)
