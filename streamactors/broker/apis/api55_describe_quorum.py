"""DescribeQuorum: the voters and the observers of the metadata log, with their offsets.

Versions: 0-2 (1 times of the last fetch, 2 folder ids and nodes KIP-853).   Authorised: DESCRIBE CLUSTER.
Errors: UNKNOWN_TOPIC_OR_PARTITION (any other partition than that of the metadata log), NOT_LEADER_OR_FOLLOWER.
Differs from Apache Kafka: the leader has observers only while it has a listener for controllers."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.controller.metadata_feed import DescribeQuorum, QuorumView, Replica
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.requests.api import LATER, Api, Body, Later
from streamactors.broker.requests.endpoints import node_endpoints
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import describe_cluster

_NOT_HERE: Final = {
    "error_code": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "error_message": "This server does not host this topic-partition.",
}


def handle(request: Request) -> Body | Later:
    @request.answer_with
    def reply(view: QuorumView) -> Body:
        topics = [
            {
                "topic_name": t.topic_name,
                "partitions": [_partition(view, t.topic_name, p) for p in t.partitions],
            }
            for t in request.message.topics
        ]
        described = any(t.topic_name == METADATA_TOPIC for t in request.message.topics)
        nodes = [_node(request, each.replica_id) for each in view.voters] if described else []
        return {"error_message": "", "topics": topics, "nodes": nodes}

    request.node.controller.submit(DescribeQuorum(), reply)
    return LATER


def _node(request: Request, node_id: int) -> dict[str, Any]:
    name = (request.node.config.controller_listener_names or "").partition(",")[0].strip()
    listeners = [
        {"name": name, "host": each["host"], "port": each["port"]} for each in node_endpoints(request.node, node_id)
    ]
    return {"node_id": node_id, "listeners": listeners}


def _partition(view: QuorumView, topic: str, asked: Any) -> dict[str, Any]:
    number = asked.partition_index
    if (topic, number) != (METADATA_TOPIC, 0):
        return {"partition_index": number, **_NOT_HERE}
    if view.error:
        return {
            "partition_index": number,
            "error_code": view.error,
            "error_message": view.error.name,
            "leader_id": view.leader.leader_id,
            "leader_epoch": view.leader.epoch,
        }
    return {
        "partition_index": number,
        "error_message": "",
        "leader_id": view.leader.leader_id,
        "leader_epoch": view.leader.epoch,
        "high_watermark": view.high_watermark,
        "current_voters": [_replica(each) for each in view.voters],
        "observers": [_replica(each) for each in view.observers],
    }


def _replica(replica: Replica) -> dict[str, Any]:
    return {
        "replica_id": replica.replica_id,
        "replica_directory_id": replica.directory_id,
        "log_end_offset": replica.offset,
        "last_fetch_timestamp": replica.fetched_ms,
        "last_caught_up_timestamp": replica.caught_up_ms,
    }


API: Final = Api(key=55, versions=(0, 2), authorise=describe_cluster, handle=handle, forwarded=True)
