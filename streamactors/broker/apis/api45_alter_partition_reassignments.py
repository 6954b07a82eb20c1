"""AlterPartitionReassignments: moves replicas to other brokers; there are none yet.

Versions: 0-1 (1 may forbid another replication factor).   Authorised: ALTER CLUSTER.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_REPLICA_ASSIGNMENT, NO_REASSIGNMENT_IN_PROGRESS.
Differs from Apache Kafka: nothing; with one broker the only legal target is the current one."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.api import Api, Body
from streamactors.broker.controller.plan_topics import check_replicas
from streamactors.broker.errors import ErrorCode, Refusal
from streamactors.broker.request import Request
from streamactors.broker.security.rights import alter_cluster


def handle(request: Request) -> Body:
    message = request.message
    return {
        "allow_replication_factor_change": message.allow_replication_factor_change,
        "error_message": None,
        "responses": [
            {"name": topic.name, "partitions": [_reassign(request, topic.name, each) for each in topic.partitions]}
            for topic in message.topics
        ],
    }


def _reassign(request: Request, name: str, asked: Any) -> dict[str, Any]:
    number = asked.partition_index
    try:
        _check(request, name, number, asked.replicas)
    except Refusal as refusal:
        return {"partition_index": number, "error_code": refusal.code, "error_message": refusal.message}
    return {"partition_index": number, "error_code": ErrorCode.NONE, "error_message": None}


def _check(request: Request, name: str, number: int, replicas: tuple[int, ...] | None) -> None:
    image = request.node.metadata.image
    topic = image.topics.get(name)
    if topic is None:
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {name}.")
    if not 0 <= number < len(topic.partitions):
        raise Refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    if replicas is None:
        raise Refusal(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
    check_replicas(image, replicas, None)
    if set(replicas) != set(topic.partitions[number].replicas):
        raise Refusal(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "Replicas cannot be moved between brokers yet.")


API: Final = Api(key=45, versions=(0, 1), authorise=alter_cluster, handle=handle)
