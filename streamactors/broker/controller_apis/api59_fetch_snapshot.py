"""FetchSnapshot: a snapshot of the metadata, piece by piece, for a node whose records are not in the log any more (KIP-630).

Versions: 0-1 (1 directory id and endpoints KIP-853).   Authorised: CLUSTER_ACTION.
Errors: INCONSISTENT_CLUSTER_ID, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH, NOT_LEADER_OR_FOLLOWER, SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE.
Differs from Apache Kafka: nothing."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.controller.metadata_feed import FetchSnapshot, Piece
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Body | Later:
    message = request.message
    if message.cluster_id not in (None, request.node.cluster_id):
        return refuse(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    topics = message.topics
    if len(topics) != 1 or topics[0].name != METADATA_TOPIC or len(topics[0].partitions) != 1:
        return refuse(request, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    asked = topics[0].partitions[0]
    wanted = asked.snapshot_id
    command = FetchSnapshot(
        asked.current_leader_epoch, wanted.end_offset, wanted.epoch, asked.position, message.max_bytes
    )

    @request.answer_with
    def reply(piece: Piece) -> Body:
        partition: dict[str, Any] = {
            "index": 0,
            "error_code": piece.error,
            "snapshot_id": {"end_offset": wanted.end_offset, "epoch": wanted.epoch},
            "current_leader": {"leader_id": piece.leader.leader_id, "leader_epoch": piece.leader.epoch},
            "size": piece.size,
            "position": asked.position,
            "unaligned_records": piece.content,
        }
        topic = {"name": METADATA_TOPIC, "partitions": [partition]}
        return {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "topics": [topic]}

    request.node.controller.submit(command, reply)
    return LATER


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"throttle_time_ms": 0, "error_code": code, "topics": ()}


API: Final = Api(key=59, versions=(0, 1), authorise=cluster_action, handle=handle, refuse=refuse)
