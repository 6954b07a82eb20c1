"""DescribeQuorum: the voters and the observers of the metadata log, with their offsets.

Versions: 0-2 (1 times of the last fetch, 2 folder ids and nodes KIP-853).   Authorised: DESCRIBE CLUSTER.
Errors: UNKNOWN_TOPIC_OR_PARTITION (any other partition than that of the metadata log).
Differs from Apache Kafka: this node is the only voter. It has observers only while it has a listener for controllers."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.api import LATER, Api, Body, Later
from streamactors.broker.controller.metadata_feed import DescribeQuorum, Observer, QuorumView
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.topic_name import METADATA_TOPIC
from streamactors.broker.request import Request
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
                "partitions": [_partition(request, view, t.topic_name, p) for p in t.partitions],
            }
            for t in request.message.topics
        ]
        described = any(t.topic_name == METADATA_TOPIC for t in request.message.topics)
        nodes = [{"node_id": each, "listeners": _listeners(request)} for each in view.voters] if described else []
        return {"error_message": "", "topics": topics, "nodes": nodes}

    request.node.controller.submit(DescribeQuorum(), reply)
    return LATER


def _listeners(request: Request) -> list[dict[str, Any]]:
    listener = request.node.controller_listener
    if listener is None:
        return []
    return [{"name": listener.name, "host": listener.advertised_host, "port": listener.advertised_port}]


def _partition(request: Request, view: QuorumView, topic: str, asked: Any) -> dict[str, Any]:
    number = asked.partition_index
    if (topic, number) != (METADATA_TOPIC, 0):
        return {"partition_index": number, **_NOT_HERE}
    if view.error:
        return {"partition_index": number, "error_code": view.error, "error_message": view.error.name}
    node = request.node
    now_ms = node.clock.wall_ms()
    voters = [
        {
            "replica_id": each,
            "replica_directory_id": node.logs.properties.directory_id,
            "log_end_offset": view.high_watermark,
            "last_fetch_timestamp": now_ms,
            "last_caught_up_timestamp": now_ms,
        }
        for each in view.voters
    ]
    return {
        "partition_index": number,
        "error_message": "",
        "leader_id": view.leader.leader_id,
        "leader_epoch": view.leader.epoch,
        "high_watermark": view.high_watermark,
        "current_voters": voters,
        "observers": [_observer(each) for each in view.observers],
    }


def _observer(observer: Observer) -> dict[str, Any]:
    return {
        "replica_id": observer.replica_id,
        "replica_directory_id": observer.directory_id,
        "log_end_offset": observer.offset,
        "last_fetch_timestamp": observer.fetched_ms,
        "last_caught_up_timestamp": observer.caught_up_ms,
    }


API: Final = Api(key=55, versions=(0, 2), authorise=describe_cluster, handle=handle)
