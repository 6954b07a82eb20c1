"""DescribeTopicPartitions: topics with their partitions, in pages.

Versions: 0.   Authorised: DESCRIBE of each TOPIC.
Errors: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST (cursor before
the first partition).   Differs from Apache Kafka: as Metadata."""

from __future__ import annotations

from typing import Any, Final

from streamactors.broker.apis.authorised_operations import NOT_ASKED, on_topic
from streamactors.broker.apis.partition_view import leader_to_ask, partition_view, possible_leaders
from streamactors.broker.errors import ErrorCode
from streamactors.broker.metadata.image import MetadataImage
from streamactors.broker.metadata.metadata_record import PartitionRecord
from streamactors.broker.metadata.topic_name import INTERNAL_TOPICS, topic_name_complaint
from streamactors.broker.protocol.metadata import PartitionMetadata
from streamactors.broker.requests.api import Api, Body
from streamactors.broker.requests.request import Request
from streamactors.broker.security.rights import Operation, ResourceType, each


def handle(request: Request) -> Body:
    message, node = request.message, request.node
    image = node.metadata.image
    cursor = message.cursor
    asked = {topic.name for topic in message.topics} or set(image.topics)
    names = sorted(name for name in asked if cursor is None or name >= cursor.topic_name)
    if cursor is not None and cursor.partition_index < 0:
        return {"topics": [_refused(cursor.topic_name, ErrorCode.INVALID_REQUEST, NOT_ASKED)], "next_cursor": None}
    room = max(1, min(message.response_partition_limit, node.config.max_request_partition_size_limit))
    topics: list[dict[str, Any]] = []
    for name in names:
        if room == 0:
            return _page(topics, name, 0)
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        described = _topic(request, image, name, first, room)
        if not message.topics and described["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            continue  # the client did not name the topic, so the answer must not reveal it
        topics.append(described)
        taken = len(described["partitions"])
        room -= taken
        if name in image.topics and first + taken < len(image.topics[name].partitions) and taken:
            return _page(topics, name, first + taken)
    return {"topics": topics, "next_cursor": None}


def refuse(request: Request, code: ErrorCode) -> Body:
    return {"topics": [_refused(topic.name, code, NOT_ASKED) for topic in request.message.topics], "next_cursor": None}


def _page(topics: list[dict[str, Any]], name: str, partition: int) -> Body:
    return {"topics": topics, "next_cursor": {"topic_name": name, "partition_index": partition}}


def _topic(request: Request, image: MetadataImage, name: str, first: int, room: int) -> dict[str, Any]:
    if not request.allowed(Operation.DESCRIBE, ResourceType.TOPIC, name):
        return _refused(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, NOT_ASKED)
    operations = on_topic(request, name)
    topic = image.topics.get(name)
    if topic is None:
        illegal = topic_name_complaint(name) is not None
        code = ErrorCode.INVALID_TOPIC_EXCEPTION if illegal else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return _refused(name, code, operations)
    node, listener, brokers = request.node, request.listener.name, possible_leaders(request.node)
    return {
        "error_code": ErrorCode.NONE,
        "name": name,
        "topic_id": topic.topic_id,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [
            _partition(partition_view(brokers, partition, listener, leader_to_ask(node, name, partition)), partition)
            for partition in topic.partitions[first : first + room]
        ],
        "topic_authorized_operations": operations,
    }


def _partition(view: PartitionMetadata, partition: PartitionRecord) -> dict[str, Any]:
    return {
        "error_code": view.error_code,
        "partition_index": view.partition,
        "leader_id": view.leader,
        "leader_epoch": view.leader_epoch,
        "replica_nodes": view.replicas,
        "isr_nodes": view.isr,
        "offline_replicas": view.offline,
        "eligible_leader_replicas": partition.elr,
        "last_known_elr": partition.last_known_elr,
    }


def _refused(name: str, code: ErrorCode, operations: int) -> dict[str, Any]:
    return {
        "error_code": code,
        "name": name,
        "topic_id": None,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


API: Final = Api(key=75, versions=(0, 0), authorise=each, handle=handle, refuse=refuse)
