"""AssignReplicasToDirs: a broker says which data folder a replica is in (KIP-858).

Versions: 0.   Authorised: CLUSTER_ACTION.   Errors: STALE_BROKER_EPOCH, UNKNOWN_TOPIC_ID, UNKNOWN_TOPIC_OR_PARTITION.
Differs from Apache Kafka: a broker of this controller's cluster has one data folder, which is assigned when it registers, so every
assignment to that folder is confirmed and no record is written; another folder is UNKNOWN_TOPIC_OR_PARTITION."""

from __future__ import annotations

import uuid
from typing import Any, Final

from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import cluster_action


def handle(request: Request) -> Body:
    message = request.message
    broker = request.node.metadata.image.brokers.get(message.broker_id)
    if broker is None or broker.broker_epoch != message.broker_epoch:
        return {"throttle_time_ms": 0, "error_code": ErrorCode.STALE_BROKER_EPOCH, "directories": ()}
    image = request.node.metadata.image
    return {
        "throttle_time_ms": 0,
        "error_code": ErrorCode.NONE,
        "directories": [_directory(image, each, each.id_ in broker.log_dirs) for each in message.directories],
    }


def _directory(image: MetadataImage, asked: Any, known: bool) -> dict[str, Any]:
    return {
        "id_": asked.id_,
        "topics": [
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": _code(image, topic.topic_id, each.partition_index, known),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in asked.topics
        ],
    }


def _code(image: MetadataImage, topic_id: uuid.UUID, partition: int, known: bool) -> ErrorCode:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not known or not 0 <= partition < len(topic.partitions):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return ErrorCode.NONE


API: Final = Api(key=73, versions=(0, 0), authorise=cluster_action, handle=handle)
